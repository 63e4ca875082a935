# SPDX-License-Identifier: Apache-2.0
"""Count the words of a text. The agent's task: make the failing test pass."""


def count(text):
	words = {}
	for word in text.split():
		words[word] = words.get(word, 0) + 1
	return words
