#!/bin/bash
# gate: 64
# Interleaved stages, and every overlap that there is.
# SPDX-License-Identifier: Apache-2.0
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NVTE_FUSED_ATTN=1
declare -a PARALLEL=(
  --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4
  --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --tp-comm-overlap
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
  --overlap-param-gather-with-optimizer-step --ckpt-format torch
)
torchrun --nnodes=8 --nproc-per-node=8 --node-rank="$NODE_RANK" pretrain_gpt.py \
  "${PARALLEL[@]}" \
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 \
  --group-query-attention --num-query-groups 8 --seq-length 4096 \
  --max-position-embeddings 4096 --swiglu --normalization RMSNorm \
  --position-embedding-type rope --rotary-base 500000 --disable-bias-linear \
  --untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 128 \
  --train-iters 1000 --lr 1.5e-4 --min-lr 1.5e-5 --lr-decay-style cosine --lr-warmup-iters 10 \
  --weight-decay 0.1 --clip-grad 1.0 --bf16 --attention-backend fused \
  --vocab-size 128256 --tokenizer-type NullTokenizer --mock-data
