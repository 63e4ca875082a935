/* SPDX-License-Identifier: Apache-2.0 */
/* Says that it runs, then does nothing until its stdin ends: a sandbox at rest, to be weighed. */
#include <unistd.h>

int main(void)
{
	char c;

	if (write(1, "ready\n", 6) != 6)
		return 1;
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
