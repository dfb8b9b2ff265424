"""1F1B that holds at most DEPTH micro-batches in flight: python3 shallow.py DEPTH B|IW K M v"""
# SPDX-License-Identifier: Apache-2.0
import sys

depth, backward = int(sys.argv[1]), sys.argv[2]
K, M, v = map(int, sys.argv[3:])
for k in range(K):
    ahead = min(depth, K - k, M)  # forwards before the first backward
    order = [f"{k}F{m}" for m in range(ahead)]
    for m in range(M):
        order += [f"{k}{kind}{m}" for kind in backward]
        if m + ahead < M:
            order.append(f"{k}F{m + ahead}")
    print(",".join(order))
