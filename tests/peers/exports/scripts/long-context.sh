#!/bin/bash
# gate: 64
# Context parallelism, full re-materialisation, and functions of the shell.
# SPDX-License-Identifier: Apache-2.0
export CUDA_DEVICE_MAX_CONNECTIONS=1
parallel() {
  echo "--tensor-model-parallel-size 4 --context-parallel-size 2 --pipeline-model-parallel-size 2"
}
MODEL="--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32"
MODEL+=" --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm"
MODEL+=" --position-embedding-type rope --rotary-base 500000 --disable-bias-linear"
MODEL+=" --untie-embeddings-and-output-weights"
torchrun --nproc_per_node 8 --nnodes 8 --node_rank $NODE_RANK pretrain_gpt.py \
  $MODEL $(parallel) --sequence-parallel --use-distributed-optimizer \
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
  --seq-length 32768 --max-position-embeddings 32768 --micro-batch-size 1 \
  --global-batch-size 64 --train-iters 5000 --lr 2e-5 --min-lr 2e-6 --lr-decay-style linear \
  --lr-warmup-iters 50 --weight-decay 0.1 --clip-grad 1.0 --bf16 --attention-backend fused \
  --vocab-size 128256 --tokenizer-type NullTokenizer --mock-data
