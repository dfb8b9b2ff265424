#!/bin/bash
# gate: 32 checkpoints logs
# Arrays of arguments, with folders as the script's own parameters.
# SPDX-License-Identifier: Apache-2.0
export CUDA_DEVICE_MAX_CONNECTIONS=1
CHECKPOINTS=$1 #<where they are kept>
LOGS=$2
DISTRIBUTED_ARGS=(
    --nproc_per_node 8
    --nnodes 4
    --node_rank "$NODE_RANK"
    --master_addr "$MASTER_ADDR"
)
MODEL_ARGS=(
    --num-layers 40
    --hidden-size 5120
    --ffn-hidden-size 13824
    --num-attention-heads 40
    --seq-length 4096
    --max-position-embeddings 4096
    --swiglu
    --normalization RMSNorm
    --position-embedding-type rope
    --rotary-base 10000
    --disable-bias-linear
    --untie-embeddings-and-output-weights
)
MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size 4
	--pipeline-model-parallel-size 4
	--sequence-parallel
	--use-distributed-optimizer
	--overlap-grad-reduce
	--overlap-param-gather
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 128
    --train-iters 20000
    --lr 3e-4
    --min-lr 3e-5
    --lr-decay-style cosine
    --lr-warmup-iters 200
    --weight-decay 0.1
    --clip-grad 1.0
    --bf16
    --recompute-activations
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${MODEL_PARALLEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    --vocab-size 32000 --tokenizer-type NullTokenizer --mock-data \
    --save "$CHECKPOINTS" --save-interval 1000 --load "$CHECKPOINTS" --tensorboard-dir "$LOGS"
