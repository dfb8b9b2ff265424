// What launch scripts leave open, or do that is not followed: it is said by its line, or refused.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/started_job.hpp"

namespace weir::launch_gaps_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The script's own arguments are none, so its defaults hold: 2 x 4 of 8 devices.
TEST(LaunchScript, ArgumentsThatAreNotKnownAreSaid) {
  const std::string script = R"sh(while [[ $# -gt 0 ]]; do
  case $1 in
    --tp) TP=$2; shift 2 ;;
    --pp) PP=$2; shift; shift ;;
    *) echo "unknown $1"; exit 1 ;;
  esac
done
TP=${TP:-2} PP=${PP:-4}
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 \
  --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 \
  --vocab-size 32000 --micro-batch-size 1 --global-batch-size 16 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
  --bf16 $EXTRA_ARGS $(test -n "$FP8" && echo --fp8-format hybrid)
)sh";
  EXPECT_EQ(started(script), "K4 tp2 M16 b1 1f1b [3,5,7], 8 of 512");
  EXPECT_THAT(
      said(script),
      HasSubstr("script: $EXTRA_ARGS $(test -n \"$FP8\" && echo --fp8-format hybrid): not known "
                "here; arguments that it holds are missing"));
}

// Whatever stands among the arguments and is not known here may be several of them: by any name,
// behind a value or a flag, from a function, a program or a file. Values that are not known are the
// options' own, and the launcher's words are its.
TEST(LaunchScript, EveryOpenWordIsSaid) {
  const std::string job = "srun --container $IMAGE torchrun --nproc_per_node 8 pretrain_gpt.py $A" +
                          kSizes + "--micro-batch-size 1 ";
  const auto open = [&](const std::string& rest, const std::string& before = "") {
    const std::string all = said(before + job + rest + "\n");
    const auto end = all.find(": not known here; arguments that it holds are missing");
    if (end == all.npos) return std::string();
    const auto begin = all.rfind('\n', end) == all.npos ? 0 : all.rfind('\n', end) + 1;
    return all.substr(begin + 8, end - begin - 8);  // behind "script: "
  };
  EXPECT_EQ(open("--train-iters 9 $PARALLEL_CONF"), "$A $PARALLEL_CONF");
  EXPECT_EQ(open("--swiglu ${RECOMPUTE[@]} --lr 1e-4 \"${MORE[@]}\""),
            "$A ${RECOMPUTE[@]} ${MORE[@]}");
  EXPECT_EQ(open("--lr 1 $(yq .args job.yaml) @more.args"), "$A $(yq .args job.yaml) @more.args");
  EXPECT_EQ(open("--lr 1 ${P}", "P=$(yq .args job.yaml)\n"), "$A $(yq .args job.yaml)");
  EXPECT_EQ(open("--lr 1 $(get)", "get() {\n  cat more.args\n}\n"), "$A $(get)");
  EXPECT_EQ(
      open("--data-path 1 $DATA 2 $MORE --eval-iters $E --save $(date)/$A --tokenizer-model $T"),
      "$A");
  EXPECT_EQ(open("\"$@\" 2>&1 > $LOG"), "$A");
}

// Where a size is missing, the lines of the command that trains are said: what stands behind them
// is no part of it. The script's words begin on line 4 and end on 6; in a function, in quotes and
// in a file that is followed they stand elsewhere.
TEST(LaunchScript, AMissingSizeSaysWhereTheCommandEnds) {
  const auto missing = [](const std::string& text, const ShellFiles& files = {}) {
    return complaint(
        [&] { static_cast<void>(read_megatron_job(text, "job.sh", {.gpus = 8, .files = files})); });
  };
  const std::string sizes = "--num-layers 4 --hidden-size 64 \\\n  --num-attention-heads 4";
  EXPECT_EQ(missing("#!/bin/bash\nset -e\n\ntorchrun pretrain_gpt.py \\\n  " + sizes +
                    "\nSEQ=\"--seq-length 64\"\n"),
            "job.sh: --seq-length: is missing: the command that trains is on lines 4 to 6");
  EXPECT_EQ(missing("train() {\n  python pretrain_gpt.py " + sizes + "\n}\n\ntrain\n"),
            "job.sh: --seq-length: is missing: the command that trains is on lines 2 to 3");
  EXPECT_EQ(missing("CMD=\"python pretrain_gpt.py --num-layers 4 --hidden-size 64 "
                    "--num-attention-heads 4\"\n\neval $CMD\n"),
            "job.sh: --seq-length: is missing: the command that trains is on line 3");
  const ShellFiles files = [&](const std::string& path) -> std::optional<ShellFile> {
    if (path != "inner.sh") return std::nullopt;
    return ShellFile{"inner.sh", "cd /x\npython pretrain_gpt.py " + sizes + "\n"};
  };
  EXPECT_EQ(missing("bash inner.sh\n", files),
            "job.sh: --seq-length: is missing: the command that trains is on lines 2 to 3 of "
            "inner.sh");
}

// Sizes in another file are asked for by the file's name.
TEST(LaunchScript, AFileOfSizesIsRefused) {
  EXPECT_EQ(
      complaint([] { static_cast<void>(started("python pretrain_gpt.py --yaml-cfg a.yaml\n")); }),
      "job.sh: --yaml-cfg: the job's sizes are in a.yaml, which is not read: give them as "
      "arguments");
}

// Arguments that a file holds are not known; what the script was started with is not, either.
TEST(LaunchScript, ArgumentsOfAFileAreMissed) {
  const std::string job = "python pretrain_gpt.py" + kSizes + "--micro-batch-size 1 ";
  EXPECT_THAT(said(job + "--train-iters 9 $(cat more.txt)\n"),
              HasSubstr("$(cat more.txt): not known here; arguments that it holds are missing"));
  EXPECT_THAT(said(job + "--train-iters 9 $(<more.txt)\n"),
              HasSubstr("$(<more.txt): not known here; arguments that it holds are missing"));
}

// 8 tasks of one node over 4 stages: 2 replicas, 8 micro-batches.
TEST(LaunchScript, ABranchThatIsNotKnownIsSaid) {
  const std::string script = R"sh(if [ -n "$FP8" ] ; then
   FP8_ARGS="--fp8-format hybrid"
fi
if [[ -z ${WORLD:-} ]]; then NODES=1; else NODES=$WORLD; fi
options=" \
  --num-layers 8 --hidden-size 512 \
  --num-attention-heads 8 \
  --seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000 \
  --micro-batch-size 1 --global-batch-size 16 \
  --pipeline-model-parallel-size 4 --bf16 ${FP8_ARGS} "
DATETIME=`date +'date_%y-%m-%d_time_%H-%M-%S'`
run_cmd="python -u ${DIR}/pretrain_gpt.py ${options}"
srun -l --ntasks-per-node 8 --nodes $NODES \
  --output=$DIR/logs/"%x_%j_$DATETIME.log" sh -c "${run_cmd}"
set +x
)sh";
  EXPECT_EQ(started(script), "K4 dp2 M8 b1 1f1b fp8 delayed [3,5,7], 8 of 512");
  EXPECT_THAT(said(script), HasSubstr("line 1: if [ -n \"$FP8\" ]: not known here"));
}

// A variable that a script asks for, and nobody sets, is empty: the other branch would be of a user
// who sets it. What a launcher sets is not known, and a branch that ends the script is not taken.
TEST(LaunchScript, AVariableThatNobodySetsIsEmpty) {
  const std::string script = R"sh(if [ -z ${MP_VP} ]; then
  vp=""
else
  vp="--num-layers-per-virtual-pipeline-stage ${MP_VP}"
fi
if [[ -z "$DATA" ]]; then echo "no data"; exit 1; fi
if [ -z "$SLURM_NNODES" ]; then nodes=1; else nodes=$SLURM_NNODES; fi
python pretrain_gpt.py $vp --pipeline-model-parallel-size 2 --micro-batch-size 1)sh" +
                             kSizes + "--global-batch-size 16 --nnodes $nodes --nproc_per_node 2\n";
  EXPECT_EQ(started(script), "K2 M16 b1 1f1b [5], 8 of 512");
  EXPECT_THAT(
      said(script),
      HasSubstr("script: set neither here nor in the environment, taken as empty: MP_VP\n"));
  EXPECT_EQ(started(script, {{"MP_VP", "2"}}), "K2 v2 M16 b1 interleaved-1f1b [3,5,7], 8 of 512");
}

// A file that is not followed may set it: then nobody knows. Empty it is from then on, and to bash
// it is not set all the same.
TEST(LaunchScript, WhatASourcedFileMaySetIsNotKnown) {
  const std::string test = R"sh(if [ -z "$TP" ]; then echo none; fi
python pretrain_gpt.py --tensor-model-parallel-size "${TP-2}" $TP $EXTRA )sh" +
                           kSizes + "--micro-batch-size 1 --nnodes 1 --nproc_per_node 4\n";
  EXPECT_EQ(started(test), "K1 tp2 dp2 M1 b1 1f1b, 8 of 512");
  EXPECT_THAT(said(test), HasSubstr("set neither here nor in the environment, taken as empty: TP"));
  const std::string sourced = "source site.sh\n" + test;
  EXPECT_THAT(said(sourced), AllOf(HasSubstr("source site.sh: not followed"),
                                   Not(HasSubstr("set neither here nor"))));
}

// What trains nothing, and what trains another model under a name of its own.
TEST(LaunchScript, OtherWorkIsRefusedByName) {
  const auto refused = [](const std::string& program) {
    return complaint([&] { static_cast<void>(started("python " + program + kSizes)); });
  };
  EXPECT_THAT(refused("tools/run_text_generation_server.py"), HasSubstr("trains nothing"));
  EXPECT_THAT(refused("tasks/main.py --task MNLI"), HasSubstr("fine-tuning on a task"));
  EXPECT_THAT(refused("train.py --language-model-type mistral_7b"),
              HasSubstr("a vision-language model"));
  EXPECT_THAT(refused("pretrain_gpt.py --micro-batch-size $3"),
              HasSubstr("found $3, an argument that the script is started with: write \"set --\""));
  EXPECT_THAT(refused("pretrain_gpt.py --micro-batch-size $(ask me)"),
              HasSubstr("found $(ask me), which is not known here"));
}

}  // namespace
}  // namespace weir::launch_gaps_test
