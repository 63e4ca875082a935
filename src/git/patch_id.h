/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How patches are made that are named by their ids: by a landing that writes the id down, and by the gate
 * that finds the commit again. Whole names of blobs, because that is all there is of a binary file; every
 * change, whatever .gitmodules says. Git before 2.39 leaves binary files and white space out of its ids:
 * then there are none, and commits are found by their files.
 */
#ifndef CROFT_GIT_PATCH_ID_H
#define CROFT_GIT_PATCH_ID_H

#define PATCH_ID_DIFF                                                                              \
	"-p", "--full-index", "--no-renames", "--ignore-submodules=none", "--no-ext-diff",         \
		"--no-textconv"
#define PATCH_ID_OPTION "--verbatim"
#define PATCH_ID_GIT_MIN 239

#endif
