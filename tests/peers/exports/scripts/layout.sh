#!/bin/bash
# gate: 32
# Fewer blocks on the first and the last stage, whose sizes the environment may say.
# SPDX-License-Identifier: Apache-2.0
export CUDA_DEVICE_MAX_CONNECTIONS=1
FIRST=${FIRST:-11}
LAST=${LAST:-11}
PARALLEL_ARGS=(
  --tensor-model-parallel-size 4
  --pipeline-model-parallel-size 4
  --decoder-first-pipeline-num-layers $FIRST
  --decoder-last-pipeline-num-layers $LAST
  --sequence-parallel
)
torchrun --nproc_per_node=8 --nnodes=4 --node_rank=$NODE_RANK pretrain_gpt.py \
  ${PARALLEL_ARGS[@]} \
  --num-layers 46 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 \
  --seq-length 4096 --max-position-embeddings 4096 --swiglu --normalization RMSNorm \
  --position-embedding-type rope --rotary-base 10000 --disable-bias-linear \
  --untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 64 \
  --train-iters 1000 --lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-iters 20 \
  --weight-decay 0.1 --clip-grad 1.0 --bf16 --attention-backend fused \
  --vocab-size 32000 --tokenizer-type NullTokenizer --mock-data
