#!/bin/bash
# gate: 16
#SBATCH --job-name=llama
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=48:00:00
# A batch job of Slurm, with a module and a file of settings that may be there.
# SPDX-License-Identifier: Apache-2.0
module load cuda
[ -f "$HOME/settings.sh" ] && source "$HOME/settings.sh"
export NCCL_IB_TIMEOUT=22
export CUDA_DEVICE_MAX_CONNECTIONS=1
export OMP_NUM_THREADS=8
TP=${TP:-2}
PP=${PP:-4}
MBS=${MBS:-2}
GBS=${GBS:-256}
OPTIONS=" \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
  --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
  --seq-length 8192 --max-position-embeddings 8192 \
  --micro-batch-size $MBS --global-batch-size $GBS --train-samples 100000000 \
  --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-samples 100000 \
  --lr-decay-samples 100000000 \
  --swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000 \
  --disable-bias-linear --untie-embeddings-and-output-weights \
  --attention-dropout 0.0 --hidden-dropout 0.0 --bf16 --use-flash-attn \
  --use-distributed-optimizer --sequence-parallel --clip-grad 1.0 \
  --vocab-size 128256 --tokenizer-type NullTokenizer --mock-data"
srun --label torchrun --nproc_per_node 8 --nnodes 2 --rdzv_backend c10d \
  --rdzv_endpoint "$MASTER_ADDR:29500" pretrain_gpt.py $OPTIONS
