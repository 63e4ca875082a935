/* SPDX-License-Identifier: Apache-2.0 */
/* The least a sandbox can be asked to run: a static program that exits at once. */
int main(void)
{
	return 0;
}
