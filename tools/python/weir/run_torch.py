"""Runs exported plans, each the folder of a `weir export --to torch`, in the processes of one job,
again and again in the order asked for: what `weir evaluate --executor torch` starts.

    python -m weir.run_torch job.json
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import importlib.util
import json
import pathlib
import time

import weir
from weir import torch_ranks


def script_of(folder):
    """The folder's pipeline.py as a module."""
    name = "pipeline_" + folder.name.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, folder / "pipeline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorder:
    """Start and end of each action of a trainer's rank, as (step, action, start, end) in ns of the
    clock that all processes of a machine share."""

    def __init__(self, trainer, device):
        self.device, self.spans, self.step = device, [], 0
        self.update = self.reduction = None
        for number, stage in zip(trainer.mine, trainer.stages):
            self.wrap(stage, "forward_one_chunk", number, lambda options: "F")
            self.wrap(stage, "backward_one_chunk", number,
                      lambda options: "B" if options.get("full_backward", True) else "I")
            self.wrap(stage, "backward_weight_one_chunk", number, lambda options: "W")
            self.note_update(stage)
        self.include_loss(trainer.schedule)
        self.note_reduction(trainer)

    def now(self):
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter_ns()

    def wrap(self, stage, method, number, kind):
        inner = getattr(stage, method)

        def timed(microbatch, *arguments, **options):
            begin = self.now()
            result = inner(microbatch, *arguments, **options)
            action = f"{number}{kind(options)}{microbatch}"
            self.spans.append([self.step, action, begin, self.now()])
            return result

        setattr(stage, method, timed)

    def include_loss(self, schedule):
        inner = schedule._maybe_compute_loss

        def timed(*arguments, **options):
            result = inner(*arguments, **options)
            self.spans[-1][3] = self.now()  # of the F that was the last action
            return result

        schedule._maybe_compute_loss = timed

    def note_update(self, stage):
        """The update begins where gradients are scaled, after the last backward."""
        inner = stage.scale_grads

        def timed(*arguments):
            self.update = self.update or self.now()
            return inner(*arguments)

        stage.scale_grads = timed


    def note_reduction(self, trainer):
        """From a step's last action to the optimizer: gradients of a tied weight are summed, which
        waits for the other rank that has it."""
        step, update = trainer.schedule.step, trainer.optimizer.step
        done = []

        def noted_step(*arguments, **options):
            result = step(*arguments, **options)
            done[:] = [self.now()]
            return result

        def noted_update(*arguments):
            self.reduction = [done[0], self.now()] if trainer.twin is not None else None
            return update(*arguments)

        trainer.schedule.step, trainer.optimizer.step = noted_step, noted_update


def without_waiting(ranks):
    """Updates of the ranks that sum gradients begin later by what they waited for each other: the
    sum itself takes as long as it takes the one that came last."""
    for step in range(len(ranks[0]["windows"])):
        waits = [(rank, rank["reductions"][step]) for rank in ranks if rank["reductions"][step]]
        if not waits:
            continue
        least = min(end - begin for _, (begin, end) in waits)
        for rank, (begin, end) in waits:
            for span in rank["spans"]:
                if span[0] == step and span[1].isdigit():
                    span[2] += end - begin - least
    return ranks


def run_plan(device, folder, group, steps, warm_up):
    """One rank's spans and step windows, and its peak memory where the device counts it."""
    import torch
    import torch.distributed as dist

    script = script_of(folder)
    trainer = script.Trainer(device, group)
    recorder = Recorder(trainer, device)
    batches, windows, reductions = script.batches(device), [], []
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    for step in range(warm_up + steps):
        x, target = next(batches)
        recorder.spans = [] if step <= warm_up else recorder.spans
        recorder.step, recorder.update, recorder.reduction = step - warm_up, None, None
        dist.barrier(group)
        begin = recorder.now()
        trainer.step(x, target)
        end = recorder.now()
        if recorder.update is None:
            recorder.update = recorder.spans[-1][3]
        for number in trainer.mine:
            recorder.spans.append([recorder.step, f"{number}", recorder.update, end])
        windows.append([begin, end])
        reductions.append(recorder.reduction)
    peak = torch.cuda.max_memory_allocated(device) if cuda else None
    return {"spans": recorder.spans, "windows": windows[warm_up:],
            "reductions": reductions[warm_up:], "peak_bytes": peak}


def run_job(device, job):
    """Each of job["runs"] in its order; rank 0 writes all ranks' findings to the run's file."""
    import torch.distributed as dist
    from weir.torch_costs import write_whole

    groups = {k: dist.new_group(range(k)) for k in sorted({p["ranks"] for p in job["plans"]})}
    for run in job["runs"]:
        plan, mine = job["plans"][run["plan"]], None
        k = plan["ranks"]
        if dist.get_rank() < k:
            mine = run_plan(device, pathlib.Path(plan["folder"]), groups[k], job["steps"],
                            job["warm_up"])
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, mine)
        if dist.get_rank() == 0:
            write_whole(pathlib.Path(run["file"]), json.dumps(without_waiting(every[:k])) + "\n")


def main():
    options = argparse.ArgumentParser(prog="python -m weir.run_torch", description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("job", help="JSON of weir evaluate; it names a file for each run")
    file = pathlib.Path(options.parse_args().job)
    torch_ranks.require("torch", "transformers")
    import torch

    job = json.loads(file.read_text())
    ranks = max(job["plans"][run["plan"]]["ranks"] for run in job["runs"])
    if torch.cuda.is_available() and ranks > torch.cuda.device_count():
        raise weir.MissingComponent(f"{ranks} ranks: there are {torch.cuda.device_count()} GPUs")
    torch_ranks.run_ranks(ranks, run_job, job, limit_s=job["limit_s"])
    return 0


if __name__ == "__main__":
    torch_ranks.run_as_command(main)
