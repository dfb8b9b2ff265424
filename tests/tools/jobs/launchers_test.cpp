// How many devices a script's launchers say: torchrun's counts in every notation, Slurm's, mpirun's
// and their like.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/jobs/started_job.hpp"

namespace weir::launchers_test {
namespace {

// 2 nodes of 8 over 2 x 4: 2 replicas; 128 samples are 32 micro-batches of 2.
TEST(Launchers, CountsInEveryNotation) {
  EXPECT_EQ(started(R"sh(: ${NNODES:=2}
: "${GPUS:=8}"
let WORLD=NNODES*GPUS
declare -i GBS=64
((GBS *= 2))
PER=$[ 2 * 2 ]
MBS=$(( NNODES > 1 ? 2 : 4 ))
readonly TP=$(( PER / 2 ))
[ -z "$PP" ] && PP=4
CP=${CP:-1}
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NCCL_DEBUG=WARN nohup torchrun --nnodes $NNODES \
  --nproc_per_node $GPUS pretrain_gpt.py --num-layers 8 --hidden-size 512 \
  --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 \
  --vocab-size 32000 --micro-batch-size $MBS --global-batch-size $GBS \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
  --context-parallel-size $CP --bf16 > train.log 2>&1 &
)sh"),
            "K4 tp2 dp2 M32 b2 1f1b [3,5,7], 8 of 512");
}

// Processes are devices where nothing else says how many: 64 over 2 x 2 ranks.
TEST(Launchers, ProgramsThatStartProcesses) {
  const std::string job = " python pretrain_gpt.py" + kSizes +
                          "--micro-batch-size 1 --global-batch-size 64 "
                          "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2\n";
  for (const char* launcher :
       {"mpirun -np 64 -x A=b --hostfile h", "mpiexec -n 64", "aprun -n 64 -N 8",
        "jsrun -n 16 -a 4 -g 4", "srun -n 64", "srun --ntasks=64 --mpi=pmix",
        "srun -N 8 --ntasks-per-node 8", "srun -N 8 -n 8 torchrun --nproc_per_node 8 --nnodes $N",
        "srun -N8 -n64", "aprun -n64 -N8", "jsrun -n16 -g4",
        "mpirun -np 64 --map-by socket:PE=4 python -m wrapped -n 3 --"})
    EXPECT_EQ(started(launcher + job), "K2 tp2 dp16 M4 b1 1f1b [5], 8 of 512") << launcher;
  // They are its own, and no words of the job.
  const Job launched =
      read_megatron_job("mpirun -np 64 --allow-run-as-root --mpi pmix" + job, "job.sh", {});
  EXPECT_TRUE(launched.remarks.empty()) << launched.remarks.front().name;
  for (const std::string& line : launched.lines) EXPECT_EQ(line.find("mpi"), std::string::npos);
}

// What stands before the program is the launcher's, were it named as a word of the training: that
// never sees it.
TEST(Launchers, WordsOfTheTrainingBeforeItsProgramAreNotRead) {
  std::string sizes = kSizes + "--micro-batch-size 1 --global-batch-size 16";
  sizes.erase(sizes.find("--bf16"), 6);
  const auto dtype = [&](const std::string& command) {
    return read_megatron_job(command, "job.sh", {}).plan.dtype;
  };
  EXPECT_EQ(dtype("torchrun --nproc_per_node --bf16 pretrain_gpt.py " + sizes), Dtype::fp32);
  EXPECT_EQ(dtype("torchrun --nproc_per_node 8 pretrain_gpt.py --bf16 " + sizes), Dtype::bf16);
}

// Slurm sets its job's number, whatever it is: 2 nodes of 8.
TEST(Launchers, SlurmSetsItsJob) {
  EXPECT_EQ(started("#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
                    "if [ -n \"$SLURM_JOB_ID\" ]; then N=$SLURM_NNODES; else N=1; fi\n"
                    "[[ -z ${SLURM_JOB_ID:-} ]] && N=5\n"
                    "torchrun --nproc_per_node 8 --nnodes $N pretrain_gpt.py" +
                    kSizes + "--micro-batch-size 1 --global-batch-size 16\n"),
            "K1 dp16 M1 b1 1f1b, 8 of 512");
}

}  // namespace
}  // namespace weir::launchers_test
