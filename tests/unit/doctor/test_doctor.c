/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: every check answers, nothing is left behind, an absence is told with its fix. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "doctor/doctor.h"

static struct doctor doctor;

static int open_fds(void)
{
	cleanup_dir DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

TEST(checks_have_distinct_ids)
{
	for (size_t i = 0; i < doctor_checks_n; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(doctor_checks[i].id, doctor_checks[k].id) != 0);
}

TEST(every_check_answers_and_nothing_is_left)
{
	struct err e = ERR_INIT;
	int before = open_fds();

	CHECK_INT(doctor_examine(&doctor, &e), 0);
	CHECK_INT(doctor.n, doctor_checks_n);
	for (size_t i = 0; i < doctor.n; i++) {
		CHECK(doctor.findings[i].answer.detail[0]);
		CHECK(!strstr(doctor.findings[i].answer.detail, "gave no answer"));
	}
	CHECK_INT(open_fds(), before);
	errno = 0;
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

TEST(the_doctor_itself_stays_unconfined)
{
	struct err e = ERR_INIT;

	CHECK_INT(doctor_examine(&doctor, &e), 0);
	FILE *f = fopen("/etc/passwd", "r"); /* a check's Landlock domain must not be ours */

	CHECK(f);
	fclose(f);
}

TEST(an_absence_is_told_with_its_fix)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct err e = ERR_INIT;
	const struct doctor_finding *f;

	setenv("CROFT_FORCE_FAIL", "landlock,openat2", 1);
	int r = doctor_examine(&doctor, &e);

	unsetenv("CROFT_FORCE_FAIL");
	CHECK_INT(r, 0);
	f = doctor_find(&doctor, "landlock");
	CHECK(f && f->answer.state == DOCTOR_NO && f->answer.fix[0]);
	f = doctor_find(&doctor, "openat2");
	CHECK(f && f->answer.state == DOCTOR_NO && f->answer.fix[0]);
	CHECK(doctor.chosen == TIER_AUTO); /* both tiers need Landlock */
	doctor_text(&doctor, &b);
	CHECK(strstr(buf_str(&b), "no tier holds here") && strstr(buf_str(&b), "to fix"));
	CHECK(!doctor_find(&doctor, "no such check"));
}

TEST(json_says_the_same)
{
	cleanup_buf struct buf b = BUF_INIT(1u << 20);
	struct err e = ERR_INIT;
	char want[64];

	CHECK_INT(doctor_examine(&doctor, &e), 0);
	doctor_json(&doctor, &b);
	CHECK(!b.failed);
	for (size_t i = 0; i < doctor_checks_n; i++) {
		snprintf(want, sizeof(want), "\"id\": \"%s\"", doctor_checks[i].id);
		CHECK(strstr(buf_str(&b), want));
	}
}

TEST(long_answers_are_cut_not_overrun)
{
	struct doctor_answer a = {0};
	char text[4096];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	doctor_say(&a, DOCTOR_NO, "%s", text);
	doctor_fix(&a, "%s", text);
	CHECK_INT(strlen(a.detail), DOCTOR_DETAIL_MAX - 1);
	CHECK_INT(strlen(a.fix), DOCTOR_FIX_MAX - 1);
}
