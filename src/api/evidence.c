/* SPDX-License-Identifier: Apache-2.0 */
/* libcroft: evidence. Found, judged, shown, sent and fetched; see evidence/evidence.h. */
#include "evidence/evidence.h"

#include <errno.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/cleanup.h"

#define REPORT_MAX_B (256u << 20)

int croft_evidence_show(struct croft *c, const char *name, unsigned long long event,
	enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);
	cleanup_evidence struct evidence v = {0};
	int r;

	c->err = ERR_INIT;
	r = evidence_find(&v, name, &c->err);
	if (r == 0)
		r = evidence_show(&v, event, f == CROFT_JSON, &b, &c->err);
	return api_give(c, r, &b, ret);
}

int croft_evidence_show_entry(struct croft *c, const char *name, unsigned long long event,
	unsigned long long entry, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);
	cleanup_evidence struct evidence v = {0};
	int r;

	c->err = ERR_INIT;
	r = evidence_find(&v, name, &c->err);
	if (r == 0)
		r = evidence_show_entry(&v, event, entry, f == CROFT_JSON, &b, &c->err);
	return api_give(c, r, &b, ret);
}

int croft_evidence_verify(
	struct croft *c, const char *what, const char *key_file, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);
	cleanup_evidence struct evidence v = {0};
	int r;

	c->err = ERR_INIT;
	r = evidence_find_any(&v, what, &c->err);
	if (r == 0)
		r = evidence_verify(&v, key_file, f == CROFT_JSON, &b, &c->err);
	return api_give(c, r, &b, ret);
}

int croft_evidence_key(struct croft *c, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);

	c->err = ERR_INIT;
	return api_give(c, evidence_key(f == CROFT_JSON, &b, &c->err), &b, ret);
}

int croft_evidence_push(
	struct croft *c, const char *remote, const char *const *names, bool all, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);

	c->err = ERR_INIT;
	return api_give(c, evidence_push(remote, names, all, &b, &c->err), &b, ret);
}

/* What was fetched before one was refused is fetched: *ret tells of it even then. */
int croft_evidence_fetch(
	struct croft *c, const char *remote, const char *const *names, bool all, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);
	int r;

	c->err = ERR_INIT;
	r = evidence_fetch(remote, names, all, &b, &c->err);
	if (r < 0 && b.len)
		*ret = buf_take(&b);
	return api_give(c, r, &b, ret);
}

int croft_env_log(struct croft *c, const char *name, size_t n, enum croft_format f, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(REPORT_MAX_B);
	cleanup_evidence struct evidence v = {0};
	int r;

	c->err = ERR_INIT;
	r = evidence_find(&v, name, &c->err);
	if (r == 0)
		r = evidence_log(&v, n, f == CROFT_JSON, &b, &c->err);
	return api_give(c, r, &b, ret);
}
