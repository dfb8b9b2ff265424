#!/bin/bash
# gate: 8
# One script for several sizes, of which the first is the one that runs.
# SPDX-License-Identifier: Apache-2.0
SIZE=${SIZE:-1b}
export CUDA_DEVICE_MAX_CONNECTIONS=1
case "$SIZE" in
  1b) LAYERS=16; HIDDEN=2048; FFN=8192; HEADS=32; TP=1; PP=2 ;;
  3b) LAYERS=28; HIDDEN=3072; FFN=8192; HEADS=24; TP=2; PP=2 ;;
  *) echo "no such size: $SIZE" >&2; exit 1 ;;
esac
GPUS=8
DP=$((GPUS / (TP * PP)))
if [ $TP -gt 1 ]; then
  SP="--sequence-parallel"
else
  SP=""
fi
torchrun --standalone --nnodes 1 --nproc_per_node $GPUS pretrain_gpt.py \
  --num-layers $LAYERS --hidden-size $HIDDEN --ffn-hidden-size $FFN \
  --num-attention-heads $HEADS --group-query-attention --num-query-groups 8 --kv-channels 64 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP $SP \
  --micro-batch-size 2 --global-batch-size $((DP * 2 * 16)) --seq-length 2048 \
  --max-position-embeddings 2048 --swiglu --normalization RMSNorm \
  --position-embedding-type rope --rotary-base 500000 --disable-bias-linear \
  --train-iters 100 --lr 2e-4 --lr-decay-style constant --weight-decay 0.1 --clip-grad 1.0 \
  --bf16 --vocab-size 128256 --tokenizer-type NullTokenizer --mock-data
