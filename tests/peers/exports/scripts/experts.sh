#!/bin/bash
# gate: 64 out
# Experts, whose degrees stand in the environment or here.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1
: "${TP:=2}" "${PP:=4}" "${EP:=8}"
OUT=${1:?where the run is kept}
ARGS=()
ARGS+=(--tensor-model-parallel-size "$TP" --pipeline-model-parallel-size "$PP")
ARGS+=(--expert-model-parallel-size "$EP" --expert-tensor-parallel-size 1)
ARGS+=(--sequence-parallel --use-distributed-optimizer --overlap-grad-reduce)
ARGS+=(--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32)
ARGS+=(--group-query-attention --num-query-groups 8 --seq-length 4096)
ARGS+=(--max-position-embeddings 32768 --num-experts 8 --moe-router-topk 2)
ARGS+=(--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2)
ARGS+=(--moe-grouped-gemm --moe-token-dispatcher-type alltoall)
ARGS+=(--swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 1000000)
ARGS+=(--disable-bias-linear --untie-embeddings-and-output-weights --no-masked-softmax-fusion)
ARGS+=(--micro-batch-size 1 --global-batch-size 256 --train-iters 500000)
ARGS+=(--lr 1e-4 --min-lr 1.0e-5 --lr-decay-style cosine --lr-decay-iters 320000)
ARGS+=(--lr-warmup-iters 500 --weight-decay 0.1 --clip-grad 1.0 --bf16)
ARGS+=(--vocab-size 32000 --tokenizer-type NullTokenizer --mock-data)
ARGS+=(--save "$OUT" --save-interval 1000)
torchrun --nproc_per_node 8 --nnodes 8 --node_rank "$NODE_RANK" pretrain_gpt.py "${ARGS[@]}"
