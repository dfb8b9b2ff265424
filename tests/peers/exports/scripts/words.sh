#!/bin/bash
# gate: 64
# Words of one long command, each number a variable of its own.
# SPDX-License-Identifier: Apache-2.0
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=8
TP=8
PP=4
LAYERS=48
HIDDEN=8192
HEADS=64
SEQ_LEN=2048
MICRO=1
GLOBAL=256
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank $NODE_RANK \
  --master_addr $MASTER_ADDR --master_port 6000 pretrain_gpt.py \
  --tensor-model-parallel-size $TP \
  --pipeline-model-parallel-size $PP \
  --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $HEADS \
  --seq-length $SEQ_LEN --max-position-embeddings $SEQ_LEN \
  --micro-batch-size $MICRO --global-batch-size $GLOBAL \
  --lr 0.00015 --min-lr 1.0e-5 --lr-decay-style cosine --lr-warmup-fraction .01 \
  --train-iters 500000 --lr-decay-iters 320000 \
  --weight-decay 1e-2 --clip-grad 1.0 --fp16 \
  --vocab-size 50304 --tokenizer-type NullTokenizer --mock-data
