"""Whether a schedule ends, by docs/design.md 5 and 6 alone: ranks compute in their order, each edge
sends in the order in which its sender computes, and message i of an edge waits until the consumer
of message i - slots has ended. Nothing is timed: whatever can happen happens, until nothing can."""
# SPDX-License-Identifier: Apache-2.0
from collections import defaultdict


def ends(rows, stages, slots):
    """`rows`: for each rank its actions (stage, letter, micro-batch); slots 0: unlimited."""
    rank_of = {stage: rank for rank, row in enumerate(rows) for stage, _, _ in row}
    done, delivered = set(), set()
    edges = defaultdict(list)  # by (from, to): the messages (stage, letter, micro-batch) of whom
    sent = defaultdict(int)
    at = [0] * len(rows)

    def crosses(stage, letter):
        """Where an action's result goes: the stage and the rank that take it."""
        to = stage + 1 if letter == "F" else stage - 1
        return to if letter in "FBI" and 0 <= to < stages else None

    def consumed(stage, letter, unit):
        """The message of that action is used up by the stage that took it."""
        to = crosses(stage, letter)
        return any((to, k, unit) in done for k in ("F" if letter == "F" else "BI"))

    def ready(stage, letter, unit):
        before = {"F": stage - 1, "B": stage + 1, "I": stage + 1}.get(letter)
        if letter != "F" and (stage, "F", unit) not in done:
            return False
        if letter == "W":
            return (stage, "I", unit) in done
        if not 0 <= before < stages:
            return True
        source = [(before, k, unit) for k in ("F" if letter == "F" else "BI")]
        there = done if rank_of[before] == rank_of[stage] else delivered
        return any(key in there for key in source)

    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while at[rank] < len(row) and ready(*row[at[rank]]):
                stage, letter, unit = row[at[rank]]
                done.add(row[at[rank]])
                at[rank] += 1
                moved = True
                to = crosses(stage, letter)
                if to is not None and rank_of[to] != rank:
                    edges[rank, rank_of[to]].append((stage, letter, unit))
        for edge, queue in edges.items():
            while sent[edge] < len(queue):
                i = sent[edge]
                if slots and i >= slots and not consumed(*queue[i - slots]):
                    break
                delivered.add(queue[i])
                sent[edge] += 1
                moved = True
    return all(at[rank] == len(row) for rank, row in enumerate(rows))
