#!/bin/bash
#SBATCH --job-name=notes-13b
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:8
# A 13-billion-parameter model of Llama's kind on eight nodes of eight H100s.
# SPDX-License-Identifier: Apache-2.0
set -e
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}
TP=${TP:-4}
PP=${PP:-4}
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
DP=$((WORLD_SIZE / (TP * PP)))
MICRO_BATCH=1
GLOBAL_BATCH=$((DP * 64 * MICRO_BATCH))

MODEL_ARGS=(
  --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824
  --num-attention-heads 40 --group-query-attention --num-query-groups 8
  --seq-length 4096 --max-position-embeddings 4096
  --swiglu --normalization RMSNorm --disable-bias-linear
  --position-embedding-type rope --rotary-base 500000
  --untie-embeddings-and-output-weights
  --vocab-size 128256 --make-vocab-size-divisible-by 128
)
PARALLEL_ARGS=(
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP
  --use-distributed-optimizer --overlap-grad-reduce
)
if [ "$TP" -gt 1 ]; then
  PARALLEL_ARGS+=(--sequence-parallel)
fi
TRAIN_ARGS=(
  --micro-batch-size $MICRO_BATCH --global-batch-size $GLOBAL_BATCH
  --bf16 --use-flash-attn --recompute-activations
  --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 500
  --train-iters 100000 --clip-grad 1.0 --weight-decay 0.1
  --adam-beta1 0.9 --adam-beta2 0.95
)
DATA_ARGS=(
  --data-path "${DATA:-/data/notes_text_document}" --split 99,1,0
  --tokenizer-type HuggingFaceTokenizer --tokenizer-model "${TOKENIZER:-/data/tokenizer}"
)
LOG_ARGS=(--log-interval 10 --save "${OUT:-/data/out}" --save-interval 1000 --log-throughput)

srun torchrun --nnodes "$NNODES" --nproc-per-node "$GPUS_PER_NODE" \
  pretrain_gpt.py \
  "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${TRAIN_ARGS[@]}" "${DATA_ARGS[@]}" "${LOG_ARGS[@]}"
