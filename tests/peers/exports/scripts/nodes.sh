#!/usr/bin/env bash
# gate: 32
# Nodes and their addresses from the environment, arguments joined in a loop.
# SPDX-License-Identifier: Apache-2.0
NNODES=${WORLD_NODES:-4}
NODE_RANK=${RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-localhost}
export CUDA_DEVICE_MAX_CONNECTIONS=1
PARALLEL_SIZE=(2 8)
ALL=""
for part in "--tensor-model-parallel-size ${PARALLEL_SIZE[0]}" \
  "--pipeline-model-parallel-size ${PARALLEL_SIZE[1]}" \
  "--num-layers 24 --hidden-size 2048 --num-attention-heads 16" \
  "--seq-length 2048 --max-position-embeddings 2048"; do
  ALL="$ALL $part"
done
torchrun --nnodes "$NNODES" --nproc_per_node 8 --node_rank "$NODE_RANK" \
  --master_addr "$MASTER_ADDR" pretrain_gpt.py $ALL \
  --micro-batch-size 4 --global-batch-size 512 --train-iters 300000 \
  --lr 1.2e-4 --min-lr 1.2e-5 --lr-decay-style cosine --lr-warmup-fraction 0.01 \
  --lr-decay-iters 300000 --weight-decay 0.1 --clip-grad 1.0 --bf16 \
  --recompute-granularity selective --vocab-size 50304 \
  --tokenizer-type NullTokenizer --mock-data
