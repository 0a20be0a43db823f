/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What reliability_host opens and closes. */
__attribute__((visibility("default"))) int reliability_answer(void);

int reliability_answer(void)
{
	return 42;
}
