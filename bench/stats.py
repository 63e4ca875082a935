# SPDX-License-Identifier: Apache-2.0
"""Percentiles, ratios and their uncertainty. No dependencies."""

import random

BOOTSTRAP_ROUNDS = 2000


def percentile(values, p):
	"""Linear interpolation between closest ranks; p in 0..100."""
	s = sorted(values)
	if not s:
		raise ValueError("no values")
	k = (len(s) - 1) * p / 100
	lo = int(k)
	hi = min(lo + 1, len(s) - 1)
	return s[lo] + (s[hi] - s[lo]) * (k - lo)


def summary(values):
	return {
		"n": len(values),
		"p10": percentile(values, 10),
		"p50": percentile(values, 50),
		"p90": percentile(values, 90),
		"min": min(values),
	}


def median_ratio(a, b):
	"""The ratio of medians a/b with a 95 % bootstrap interval; pairs are resampled together."""
	n = min(len(a), len(b))
	a, b = a[:n], b[:n]
	rng = random.Random(1)
	draws = []
	for _ in range(BOOTSTRAP_ROUNDS):
		idx = [rng.randrange(n) for _ in range(n)]
		draws.append(percentile([a[i] for i in idx], 50) / percentile([b[i] for i in idx], 50))
	return {
		"p50": percentile(a, 50) / percentile(b, 50),
		"p90": percentile(a, 90) / percentile(b, 90),
		"low": percentile(draws, 2.5),
		"high": percentile(draws, 97.5),
	}


def paired_ratio(a, b):
	"""The median of the per-round ratios a/b: drift between rounds cancels."""
	ratios = [x / y for x, y in zip(a, b)]
	rng = random.Random(1)
	draws = [percentile([ratios[rng.randrange(len(ratios))] for _ in ratios], 50)
			 for _ in range(BOOTSTRAP_ROUNDS)]
	return {
		"n": len(ratios),
		"p50": percentile(ratios, 50),
		"p90": percentile(ratios, 90),
		"low": percentile(draws, 2.5),
		"high": percentile(draws, 97.5),
	}
