/* SPDX-License-Identifier: Apache-2.0 */
/* Outside a fuzzing build: give a fuzz target every file of its corpus, as ordinary tests. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	size_t n;

	if (!f)
		return -1;
	data = malloc(INPUT_MAX);
	n = data ? fread(data, 1, INPUT_MAX, f) : 0;
	fclose(f);
	if (!data)
		return -1;
	/* An exact allocation, so that a sanitizer sees a read past the end. */
	uint8_t *exact = malloc(n ? n : 1);

	if (exact) {
		memcpy(exact, data, n);
		LLVMFuzzerTestOneInput(exact, n);
	}
	free(exact);
	free(data);
	return exact ? 0 : -1;
}

/* Inputs every target gets, whatever its corpus: nothing, one NUL, bytes that are no text. */
static void replay_basics(void)
{
	static const uint8_t junk[] = {
		0xff, 0xfe, 0x00, 0x80, 0xc0, 0xaf, '\n', '{', '[', ':', '*'};

	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	LLVMFuzzerTestOneInput((const uint8_t *)"", 1);
	LLVMFuzzerTestOneInput(junk, sizeof(junk));
	printf("ok - basic inputs\n");
}

int main(int argc, char **argv)
{
	int failed = 0, files = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	replay_basics();
	for (int i = 1; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		struct dirent *e;

		if (!d) {
			printf("not ok - corpus %s cannot be read\n", argv[i]);
			failed++;
			continue;
		}
		while ((e = readdir(d))) {
			char path[4096];

			if (e->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "%s/%s", argv[i], e->d_name);
			/* Said before, so that a crash shows which input did it. */
			printf("# %s\n", e->d_name);
			if (replay_file(path) < 0) {
				printf("not ok - %s cannot be read\n", path);
				failed++;
			}
			files++;
		}
		closedir(d);
	}
	printf("%s - %d inputs of the corpus\n", files || argc < 2 ? "ok" : "not ok", files);
	return failed || (!files && argc > 1) ? 1 : 0;
}
