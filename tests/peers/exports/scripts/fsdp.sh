#!/bin/bash
# gate: 16
# Every tensor sharded over all devices, without a pipeline.
# SPDX-License-Identifier: Apache-2.0
unset CUDA_DEVICE_MAX_CONNECTIONS
SHARDING="--use-megatron-fsdp --use-distributed-optimizer --ckpt-format fsdp_dtensor"
SHARDING="$SHARDING --data-parallel-sharding-strategy optim_grads_params"
torchrun --nproc_per_node 8 --nnodes 2 --node_rank $NODE_RANK pretrain_gpt.py $SHARDING \
  --num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 \
  --group-query-attention --num-query-groups 4 --add-qkv-bias --disable-bias-linear \
  --seq-length 4096 --max-position-embeddings 32768 --swiglu --normalization RMSNorm \
  --position-embedding-type rope --rotary-base 1000000 --untie-embeddings-and-output-weights \
  --micro-batch-size 1 --global-batch-size 64 --train-iters 1000 --lr 1e-5 \
  --lr-decay-style constant --weight-decay 0.1 --clip-grad 1.0 --bf16 \
  --attention-backend flash --no-gradient-accumulation-fusion \
  --vocab-size 152064 --tokenizer-type NullTokenizer --mock-data
