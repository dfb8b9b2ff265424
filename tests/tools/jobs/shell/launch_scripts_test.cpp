// Launch scripts as people write them, each in words of this test, with the plan that bash would
// start worked out beside it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/started_job.hpp"

namespace weir::launch_scripts_test {
namespace {

using testing::HasSubstr;

// 4 nodes of 8 are 32 devices: 2 x 4 a replica, so 4 replicas; 32 x 4 samples a step are 16 micro-
// batches of 2 each. 16 blocks on 4 stages: the embedding is layer 0, so stages begin at 5, 9, 13.
TEST(LaunchScript, ArraysWithComments) {
  EXPECT_EQ(started(R"sh(#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
MASTER_PORT=${MASTER_PORT:-6000}
NUM_NODES=${SLURM_NNODES:-"4"}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1 #<the folder>
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)
MODEL=(
    --num-layers 16   # blocks
    --hidden-size 1024
    # --kv-channels 64
    --num-attention-heads 16
    --seq-length 2048
    --max-position-embeddings 2048
)
TRAIN=(--micro-batch-size 2 --global-batch-size $((WORLD_SIZE * 4)) --lr 1e-4 --bf16 \
  --vocab-size 50304)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL[@]} "${TRAIN[@]}" \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 \
  --save "$CHECKPOINT_PATH"
)sh"),
            "K4 tp2 dp4 M16 b2 1f1b [5,9,13], 16 of 1024");
}

// 4 devices over tensor parallelism of 2: 2 replicas, so 16 samples are 8 micro-batches of 1.
// Sequence parallelism is on by default, and bf16.
TEST(LaunchScript, BranchesThatAreKnown) {
  EXPECT_EQ(started(R"sh(TP=2
PRECISION=${PRECISION:-bf16}
OPTS="--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 \
  --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 16 \
  --vocab-size 32000"
if [[ $PRECISION == "fp16" ]]; then
  OPTS="$OPTS --fp16"
elif [[ $PRECISION == "bf16" ]]; then
  OPTS+=" --bf16"
else
  echo "unknown" >&2
  exit 1
fi
if [ "${SP:-true}" = true ] && (( TP > 1 )); then OPTS+=" --sequence-parallel"; fi
python -m torch.distributed.launch --nproc_per_node 4 \
  --nnodes 1 pretrain_gpt.py $OPTS --tensor-model-parallel-size $TP
)sh"),
            "K1 tp2s dp2 M8 b1 1f1b, 8 of 512");
}

// Slurm's shell fills in what stands in single quotes, from exported texts that hold a command's
// output and an empty line. 16 devices over 4 x 2: 2 replicas, so 64 samples are 8 micro-batches
// of 4.
TEST(LaunchScript, ASingleQuotedCommandOfVariables) {
  EXPECT_EQ(started(R"sh(#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
set -x -e
source $SCRATCH/start-prod
MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
GPUS_PER_NODE=4
NNODES=4
PP_SIZE=2
TP_SIZE=4
ITERS=73_242_187
GPT_ARGS=" \
    --num-layers 8 \
    --hidden-size 512 \
    --num-attention-heads 8 \
    --seq-length 1024 --max-position-embeddings 1024 \
    --micro-batch-size 4 \
    --global-batch-size 64 \

    --glu-activation swiglu \
    --train-samples $ITERS \
    --vocab-file $VOCAB --merge-file $MERGE \
    --fp16 --checkpoint-activations \
    "
export LAUNCHER="python -u -m torch.distributed.launch \
    --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES \
    --master_addr $MASTER_ADDR --master_port 6000 \
    "
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --tensor-model-parallel-size $TP_SIZE \
    --pipeline-model-parallel-size $PP_SIZE \
    $GPT_ARGS --zero-stage 1 --deepspeed --deepspeed_config ./ds.$SLURM_JOBID.json \
    "
clear; srun --jobid $SLURM_JOBID bash -c '$LAUNCHER \
  --node_rank $SLURM_PROCID $CMD' 2>&1 | tee -a log.txt
)sh"),
            "K2 tp4 dp2 zero1 M8 b4 1f1b full [5], 8 of 512");
  EXPECT_THAT(said(R"sh(deepspeed pretrain_gpt.py --deepspeed --deepspeed_config x.json \
  --zero-stage 1 \
  \
  --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 64 \
  \
  --max-position-embeddings 64 --micro-batch-size 1 --vocab-size 99
)sh"),
              HasSubstr("deepspeed-config: what it says of offload and precision is not read"));
}

// Of "8b" 32 blocks of 4096. 16 devices over 4 x 2: 2 replicas; 128 samples are 64 micro-batches.
TEST(LaunchScript, AFunctionThatSetsSizesByCase) {
  const std::string script = R"sh(function model_args() {
  local size=$1 out
  case "$size" in
    small|125m) layers=12; hidden=768; heads=12 ;;
    8[bB])
      layers=32; hidden=4096
      heads=32; groups="--group-query-attention --num-query-groups 8" ;;
    *) echo "no such size"; exit 1 ;;
  esac
}
SIZE=${SIZE:-8b}
model_args "$SIZE"
launch() { torchrun --nproc-per-node=8 --nnodes=2 pretrain_gpt.py "$@"; }
launch --num-layers $layers --hidden-size $hidden --num-attention-heads $heads \
  --seq-length 4096 --max-position-embeddings 4096 $groups \
  --swiglu --ffn-hidden-size 14336 --micro-batch-size 1 \
  --global-batch-size 128 --bf16 --vocab-size 128256 --tensor-model-parallel-size 4 \
  --pipeline-model-parallel-size 2
)sh";
  EXPECT_EQ(started(script), "K2 tp4 dp2 M64 b1 1f1b [17], 32 of 4096");
  EXPECT_EQ(started(script, {{"SIZE", "125m"}}), "K2 tp4 dp2 M64 b1 1f1b [7], 12 of 768");
}

// 8 devices over 4 stages: 2 replicas, so 32 samples are 8 micro-batches of 2. An argument of the
// script itself is nothing here; "shift" takes the first of those that were set.
TEST(LaunchScript, ArgumentsGatheredWithSet) {
  EXPECT_EQ(started(R"sh(set -- --num-layers 8 --hidden-size 512 --num-attention-heads 8
set -- "$@" --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 2
set -- "$@" --global-batch-size 32 --vocab-size 32000 --bf16
exec torchrun --nproc_per_node 8 pretrain_gpt.py "$@" --pipeline-model-parallel-size 4
)sh"),
            "K4 dp2 M8 b2 1f1b [3,5,7], 8 of 512");
  EXPECT_EQ(started(R"sh(set -- 4 2
PP=$1; shift
torchrun --nproc_per_node 8 pretrain_gpt.py)sh" +
                    kSizes + R"sh(\
  --micro-batch-size $1 --pipeline-model-parallel-size $PP
)sh"),
            "K4 dp2 M1 b2 1f1b [3,5,7], 8 of 512");
}

// 4 devices over 2 stages: 2 replicas, 8 micro-batches of 2. All three words of the loop arrive,
// so the embedding is not tied and no bias is there: per block 4 x 512^2 of attention and, gated,
// 3 x 512 x 1344 of the MLP (two thirds of 2048, in whole 64s), with 2 x 2 x 512 of norms.
TEST(LaunchScript, LoopsThatGatherArguments) {
  const std::string script = R"sh(TP=1; PP=2
ARGS=""
for extra in "--swiglu" "--disable-bias-linear" "--untie-embeddings-and-output-weights"; do
  ARGS="$ARGS $extra"
done
for ((i = 0; i < 3; i++)); do ARGS+=" --log-interval $i"; done
cmd="torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 8 --hidden-size 512 \
  --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 \
  --micro-batch-size 2 --global-batch-size 32 --vocab-size 32000 --bf16 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP $ARGS"
echo $cmd
eval $cmd
)sh";
  EXPECT_EQ(started(script), "K2 dp2 M8 b2 1f1b [5], 8 of 512");
  const Job job = read_megatron_job(script, "job.sh", {});
  EXPECT_EQ(parameter_count(job.model.layers[1]), 4 * 512 * 512 + 3 * 512 * 1344 + 4 * 512);
}

// bash ends the command before the comment; what comes then is meant for it all the same, and that
// is said. 8 devices over 2 stages: 4 replicas, 4 micro-batches of 2.
TEST(LaunchScript, ACommentBetweenContinuedLines) {
  const std::string script = R"sh(torchrun --nproc_per_node 8 pretrain_gpt.py \
  --num-layers 8 --hidden-size 512 --num-attention-heads 8 \
  --seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000 \
  --micro-batch-size 2 --global-batch-size 32 \
  # --recompute-granularity full \
  --pipeline-model-parallel-size 2 --bf16
)sh";
  EXPECT_EQ(started(script), "K2 dp4 M4 b2 1f1b [5], 8 of 512");
  EXPECT_THAT(said(script), HasSubstr("--pipeline-model-parallel-size begins a line of its own"));
}

// llama-8b-v2 without what is before the first "-" and behind the last is 8b: 32 blocks, 4 a
// stage.
TEST(LaunchScript, PartsOfTexts) {
  EXPECT_EQ(started(R"sh(MODEL=llama-8b-v2
SIZE=${MODEL#*-}; SIZE=${SIZE%-*}
NAME=${MODEL/llama/Llama}
REST=${MODEL:6:9223372036854775807}  # more than there is
if [ "$SIZE" = "8b" -a "$REST" = "8b-v2" ]; then L=32; H=4096; else L=2; H=128; fi
FIRST=${MODEL:0:5}
[[ $FIRST == llama ]] && NORM=RMSNorm || NORM=LayerNorm
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers $L --hidden-size $H \
  --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \
  --normalization $NORM --vocab-size 32000 --micro-batch-size 1 \
  --global-batch-size 16 --pipeline-model-parallel-size 8 --bf16 --save /x/${NAME,,}
)sh"),
            "K8 M16 b1 1f1b [5,9,13,17,21,25,29], 32 of 4096");
}

// 8 devices over 2 x 2: 2 replicas; 32 samples are 8 micro-batches of 2.
TEST(LaunchScript, HereDocumentsThatHoldArguments) {
  EXPECT_EQ(started(R"sh(ARGS=$(cat <<EOF
  --num-layers 8 --hidden-size 512
  --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024
  --micro-batch-size 2 --global-batch-size ${GBS:-32} --vocab-size 32000 --bf16
EOF
)
read -r -d '' PARALLEL <<'EOF'
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
EOF
MORE=$(echo "--sequence-parallel")
torchrun --nproc_per_node 8 pretrain_gpt.py $ARGS $PARALLEL $MORE
)sh"),
            "K2 tp2s dp2 M8 b2 1f1b [5], 8 of 512");
}

// The table's row 13b: 40 blocks of 5120, on one stage of 8 devices.
TEST(LaunchScript, TablesOfSizes) {
  EXPECT_EQ(started(R"sh(declare -A LAYERS=([7b]=32 [13b]=40) 
declare -A HIDDEN
HIDDEN[7b]=4096
HIDDEN[13b]=5120
SIZE=13b
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers ${LAYERS[$SIZE]} \
  --hidden-size ${HIDDEN[$SIZE]} --num-attention-heads 40 --seq-length 4096 \
  --max-position-embeddings 4096 --vocab-size 32000 --micro-batch-size 1 \
  --global-batch-size 16 --tensor-model-parallel-size 8 --bf16
)sh"),
            "K1 tp8 M16 b1 1f1b, 40 of 5120");
}

// What a function of the script prints is known where all of it is: 2 x 2 ranks of 8 devices.
TEST(LaunchScript, WhatAFunctionPrintsIsRead) {
  EXPECT_EQ(started("both() {\n  local pp=$1\n  echo --tensor-model-parallel-size 2\n"
                    "  printf '%s ' --pipeline-model-parallel-size $pp\n}\n"
                    "torchrun --nproc_per_node 8 pretrain_gpt.py" +
                    kSizes + "--micro-batch-size 1 --global-batch-size 8 $(both 2)\n"),
            "K2 tp2 dp2 M4 b1 1f1b [5], 8 of 512");
}

// "${A[*]}" in quotes is one word, and no words leave none.
TEST(LaunchScript, AllOfAnArrayInOneWord) {
  EXPECT_EQ(started("A=(" + kSizes +
                    ")\nB=(--micro-batch-size 1 --global-batch-size 8)\n"
                    "srun -n 4 bash -c \"python -u pretrain_gpt.py ${A[*]} ${B[*]} $*\"\n"),
            "K1 dp4 M2 b1 1f1b, 8 of 512");
  const Arguments none("C=()\npython pretrain_gpt.py --lr 1 \"${C[@]}\" \"$@\"\n", "job.sh");
  EXPECT_EQ(none.line("lr"), "--lr 1");
}

// A script that is started is followed where its text is known, with what started it and what it
// is given; else it is named.
TEST(LaunchScript, OtherScriptsAreFollowed) {
  const std::string train =
      "torchrun --nproc_per_node 8 pretrain_gpt.py" + kSizes +
      "--micro-batch-size 1 --global-batch-size 64 --pipeline-model-parallel-size $1\n";
  const std::string wanted = "K4 dp8 M8 b1 1f1b [3,5,7], 8 of 512";  // of 4 x 8 devices
  EXPECT_EQ(
      started("cat <<'EOF' > job.slurm\n#SBATCH --nodes=4\n" + train + "EOF\nsbatch job.slurm 4\n"),
      wanted);
  const ShellFiles files = [&](const std::string& path) -> std::optional<ShellFile> {
    if (path == "inner.sh") return ShellFile{"inner.sh", train};
    if (path == "self.sh") return ShellFile{"self.sh", "bash self.sh\nbash self.sh\n" + train};
    return std::nullopt;
  };
  for (const char* line : {"bash inner.sh 4", "srun -N 4 -n 4 inner.sh 4",
                           "bash $(dirname $0)/inner.sh 4", "srun -N 4 -n 4 bash -c './inner.sh 4'",
                           "bash self.sh 4", "ssh node \"cd /x && bash inner.sh 4\""}) {
    const Job job = read_megatron_job("#SBATCH --nodes=4\n" + std::string(line) + "\n", "job.sh",
                                      {.files = files});
    EXPECT_EQ(summary(job.plan), "K4 dp8 M8 b1 1f1b fused [3,5,7]") << line;
  }
  EXPECT_EQ(complaint([&] { static_cast<void>(started("bash run_it.sh --fast\n")); }),
            "job.sh: --hidden-size: is missing; run_it.sh: not followed: what it starts is not "
            "known");
  EXPECT_EQ(said("set -- 4\nbash prepare.sh\n" + train).find("prepare.sh"), std::string::npos);
}

// 16 devices of one stage: 16 replicas of 8 experts' devices; 256 samples are 4 micro-batches of
// 4. Every second block has the 16 experts, one a token.
TEST(LaunchScript, ExpertsAsMegatronDeepSpeedHasThem) {
  const std::string script = R"sh(deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py --deepspeed \
  --deepspeed_config ds.json \
  --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 2048 \
  --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 4 \
  --global-batch-size 256 --num-experts 16 --moe-expert-parallel-size 8 \
  --no-pipeline-parallel --normalization rmsnorm --fp16 \
  --accumulate-allreduce-grads-in-fp32 )sh";
  EXPECT_EQ(started(script), "K1 dp16 ep8 M4 b4 1f1b, 12 of 768");
  const Job job = read_megatron_job(script, "job.sh", {});
  const auto experts = [&](std::size_t block) {
    return std::get<TransformerShape>(job.model.layers[block].shape).experts;
  };
  EXPECT_EQ(experts(1), 1);
  EXPECT_EQ(experts(2), 16);
  EXPECT_EQ(std::get<TransformerShape>(job.model.layers[2].shape).experts_per_token, 1);
  EXPECT_EQ(std::get<TransformerShape>(job.model.layers[2].shape).norm, NormKind::rms_norm);
  const auto refused = [&](const std::string& more) {
    return complaint([&] { static_cast<void>(started(script + more)); });
  };
  EXPECT_THAT(refused("--mlp-type residual"), HasSubstr("--mlp-type: residual"));
  EXPECT_THAT(refused("--num-experts 8 8 16"), HasSubstr("one for each of the 6 blocks"));
  EXPECT_THAT(refused("--ds-sequence-parallel-size 4"), HasSubstr("is not modelled"));
  EXPECT_THAT(refused("--moe-expert-parallel-size 32"),
              HasSubstr("does not divide the 16 devices"));
}

// ZeRO's stage is in the configuration that the script writes, or that lies beside it; and keys and
// values are fewer heads, or all three matrices of a gated MLP, under names of their own.
TEST(LaunchScript, DeepSpeedsConfigurationIsRead) {
  const auto job = [](const std::string& config, const std::string& more) {
    const std::string script =
        "Z=2\nCONFIG=./ds.$ID.json\n" + config + "deepspeed --num_gpus 8 pretrain_gpt.py" + kSizes +
        "--micro-batch-size 1 --global-batch-size 8 --deepspeed --deepspeed_config $CONFIG " +
        more + "\n";
    return read_megatron_job(
        script, "job.sh",
        {.gpus = 8, .files = [](const std::string& path) -> std::optional<ShellFile> {
           if (path != "other.json") return std::nullopt;
           return ShellFile{path, R"({"zero_optimization": {"stage": 3}})"};
         }});
  };
  const std::string here =
      "cat <<EOT > $CONFIG\n{\"zero_optimization\": {\"stage\": $Z},\n"
      " \"train_micro_batch_size_per_gpu\": $MBS, \"bf16\": {\"enabled\": true}}\nEOT\n";
  EXPECT_EQ(job(here, "").plan.zero, 2);
  EXPECT_EQ(job("CONFIG=$DIR/other.json\n", "").plan.zero, 3);
  const Job both = job(here, "--zero-stage 1");
  EXPECT_EQ(both.plan.zero, 1);
  EXPECT_TRUE(std::ranges::any_of(both.remarks, [](const Remark& remark) {
    return remark.name == "zero_optimization.stage" &&
           remark.text == "2: the arguments say otherwise: 1 in the plan";
  }));
  const auto offloaded = [&](const std::string& device) {
    return job(
        "cat > $CONFIG <<EOT\n"
        "{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"" +
            device + "\"}}}\nEOT\n",
        "");
  };
  EXPECT_EQ(offloaded("cpu").plan.offload_optimizer, 1);
  EXPECT_THAT(complaint([&] { static_cast<void>(offloaded("nvme")); }),
              HasSubstr("offload to disks is not modelled"));
  const auto block = [&](const std::string& more) {
    return std::get<TransformerShape>(job("", more).model.layers[1].shape);
  };
  EXPECT_EQ(block("--num-key-value-heads 2").kv_heads, 2);
  EXPECT_TRUE(block("--glu-activation geglu").gated);
  EXPECT_EQ(std::get<EmbeddingShape>(job("", "--padded-vocab-size 40000").model.layers[0].shape)
                .vocabulary,
            40000);
  EXPECT_EQ(block("--glu-activation geglu").ffn, 2048);
}

// 16 devices over 4 stages: 4 replicas; 16 samples are 4 micro-batches.
TEST(LaunchScript, AJobWithinAHereDocument) {
  EXPECT_EQ(started(R"sh(sbatch <<EOT
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
srun torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 8 \
  --hidden-size 512 --num-attention-heads 8 --seq-length 1024 \
  --max-position-embeddings 1024 --vocab-size 32000 --micro-batch-size 1 \
  --global-batch-size 16 --pipeline-model-parallel-size 4 --bf16 \
  --node_rank \$SLURM_PROCID
EOT
)sh"),
            "K4 dp4 M4 b1 1f1b [3,5,7], 8 of 512");
}

// #SBATCH says 2 nodes: 16 devices over 4 stages, 4 replicas, 4 micro-batches.
TEST(LaunchScript, ACommandInAVariableOfAnother) {
  EXPECT_EQ(started(R"sh(#SBATCH --nodes=2
run_cmd="cd /workspace && torchrun --nproc_per_node 8 \
  --nnodes $SLURM_JOB_NUM_NODES pretrain_gpt.py --num-layers 8 --hidden-size 512 \
  --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 \
  --vocab-size 32000 --micro-batch-size 1 --global-batch-size 16 \
  --pipeline-model-parallel-size 4 --bf16"
srun -l --container-image nvcr.io/x --container-mounts "/a:/b" sh -c "${run_cmd}"
)sh"),
            "K4 dp4 M4 b1 1f1b [3,5,7], 8 of 512");
}

// ZB-H1 is asked for by its own name there.
TEST(LaunchScript, TheZeroBubbleOfMegatronDeepSpeed) {
  EXPECT_EQ(
      started(R"sh(deepspeed --num_gpus 4 pretrain_gpt.py --deepspeed --enable-zbh1-pipeline)sh" +
              kSizes + R"sh( \
  --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8
)sh"),
      "K4 M8 b1 zb-h1 [3,5,7], 8 of 512");
}
}  // namespace
}  // namespace weir::launch_scripts_test
