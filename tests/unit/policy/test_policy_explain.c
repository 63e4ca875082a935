/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of a resolved policy: canonical text and digest, the form for people, JSON,
 * differences. */
#include "test.h"

#include "policy/policy_impl.h"

static const struct policy_context ctx = {.home = "/home/u", .workspace = "/home/u/w"};
static struct err err;

static int resolve(
	struct policy *ret, const char *name, const char *text, enum policy_layer_kind kind)
{
	struct policy_layer *l = NULL;
	int r = policy_layer_parse(&l, kind, name, text, strlen(text), &ctx, &err);

	if (r == 0)
		r = policy_resolve(ret, &l, 1, true, &ctx, &err);
	policy_layer_free(l);
	if (r < 0)
		printf("# %s\n", err.msg);
	return r;
}

static const char full[] =
	"version: 1\nprofile: python\ntier: process\nthreat: hostile\nobserve: full\n"
	"filesystem:\n  read: [/b, '/a/*.c', '/q\\[1\\]', \"/x y\", \"/\\u00e9\", \"/z\\u202e\"]\n"
	"  write: [/w]\n  deny: ['./**/.env', ./secret]\n  write-if-present: [/wp]\n"
	"environment: {pass: [ZED, ALPHA], set: {B: \"two\\nlines\", A: 'q\"uote'}}\n"
	"limits: {memory: 3G, cpus: 1.5, pids: 100, open_files: 200, disk: 5M, file_size: 7K, "
	"timeout: 90s}\n"
	"devices: [/dev/kvm]\nnetwork: {allow: [b.test, a.test:443]}\n";

TEST(digest_is_of_the_canonical_text)
{
	struct policy p = {0};
	struct buf b = BUF_INIT(1 << 20);
	struct digest d;

	CHECK_INT(resolve(&p, "f", full, LAYER_USER), 0);
	policy_canonical(&p, &b);
	digest_sha256(&d, b.data, b.len);
	CHECK_STR(p.digest.hex, d.hex);
	buf_done(&b);
	policy_done(&p);
}

/* The digest of a given policy never changes by accident: this is the format's promise. */
TEST(canonical_is_stable)
{
	static const char profile[] = "version: 1\nfilesystem: {write: [.], read: [/usr]}\n";
	static const char user[] = "version: 1\nlimits: {memory: 1G}\nenvironment: {set: {A: b}}\n";
	static const char want[] =
		"devices: []\n"
		"environment:\n"
		"  pass: []\n"
		"  set:\n"
		"    A: sha256:3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d\n"
		"filesystem:\n"
		"  deny: []\n"
		"  deny-fixed:\n";
	static const char tail[] = "  read:\n"
				   "    - /usr\n"
				   "  read-fixed: []\n"
				   "  read-if-present: []\n"
				   "  read-if-present-fixed:\n"
				   "    - /home/u/w/croft.yaml\n"
				   "  write:\n"
				   "    - /home/u/w\n"
				   "  write-fixed: []\n"
				   "  write-if-present: []\n"
				   "  write-if-present-fixed: []\n"
				   "limits:\n"
				   "  cpus: none\n"
				   "  disk: none\n"
				   "  file_size: none\n"
				   "  memory: 1G\n"
				   "  open_files: none\n"
				   "  pids: none\n"
				   "  timeout: none\n"
				   "network:\n"
				   "  allow: []\n"
				   "observe: known\n"
				   "profile: tiny\n"
				   "threat: risky\n"
				   "tier: auto\n"
				   "version: 1\n";
	struct policy_layer *l[2] = {0};
	struct policy p = {0};
	struct buf b = BUF_INIT(1 << 20);

	CHECK_INT(policy_layer_parse(
			  &l[0], LAYER_PROFILE, "tiny", profile, strlen(profile), &ctx, &err),
		0);
	CHECK_INT(policy_layer_parse(&l[1], LAYER_USER, "u", user, strlen(user), &ctx, &err), 0);
	CHECK_INT(policy_resolve(&p, l, 2, false, &ctx, &err), 0);
	policy_canonical(&p, &b);
	if (strncmp(buf_str(&b), want, strlen(want)) != 0 || !str_ends(buf_str(&b), tail))
		printf("# %s\n", buf_str(&b));
	CHECK(strncmp(buf_str(&b), want, strlen(want)) == 0);
	CHECK(str_ends(buf_str(&b), tail));
	buf_done(&b);
	policy_done(&p);
	policy_layer_free(l[0]);
	policy_layer_free(l[1]);
}

/* Order, spelling, comments and file names do not matter; every meaning does. */
TEST(digest_depends_on_meaning_only)
{
	static const char *const same[] = {
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: 2G}\n",
		"version: 1\nlimits:\n  memory: 2048M\nfilesystem:\n  deny:\n    - './x/'\n  read: "
		"[//b/, /a/./]\n# c\n",
	};
	static const char *const other[] = {
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./y]}\nlimits: {memory: 2G}\n",
		"version: 1\nfilesystem: {write: [/a], read: [/b], deny: [./x]}\nlimits: {memory: "
		"2G}\n",
		"version: 1\nfilesystem: {read-if-present: [/a], read: [/b], deny: [./x]}\nlimits: "
		"{memory: 2G}\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\ntier: process\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\nthreat: hostile\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\nobserve: full\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\nprofile: c\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\ndevices: [/dev/kvm]\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\nnetwork: {allow: [a.b]}\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\nenvironment: {pass: [X]}\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\nenvironment: {set: {X: 1}}\n",
		"version: 1\nfilesystem: {read: [/a, /b], deny: [./x]}\nlimits: {memory: "
		"2G}\nenvironment: {set: {X: 2}}\n",
		"version: 1\nfilesystem: {read: [/a, '/b/x*'], deny: [./x]}\nlimits: {memory: "
		"2G}\n",
		"version: 1\nfilesystem: {read: [/a, '/b/x\\*'], deny: [./x]}\nlimits: {memory: "
		"2G}\n",
	};
	struct policy a = {0}, b = {0};
	char seen[16][DIGEST_HEX_LEN + 1];
	size_t n = 0;

	CHECK_INT(resolve(&a, "one", same[0], LAYER_USER), 0);
	CHECK_INT(resolve(&b, "two", same[1], LAYER_PROJECT), 0);
	CHECK_STR(a.digest.hex, b.digest.hex);
	memcpy(seen[n++], a.digest.hex, sizeof(seen[0]));
	policy_done(&b);
	CHECK_INT(resolve(&b, "sys", same[0], LAYER_SYSTEM), 0); /* there the deny is a bound */
	CHECK(strcmp(a.digest.hex, b.digest.hex) != 0);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		policy_done(&b);
		CHECK_INT(resolve(&b, "other", other[i], LAYER_USER), 0);
		for (size_t k = 0; k < n; k++)
			if (strcmp(seen[k], b.digest.hex) == 0) {
				test_fail(__FILE__, __LINE__, "%s has the digest of number %zu",
					other[i], k);
				return;
			}
		memcpy(seen[n++], b.digest.hex, sizeof(seen[0]));
	}
	policy_done(&a);
	policy_done(&b);
}

/* What is shown can be used: the same policy comes out, up to names of files. */
TEST(shown_text_is_a_policy)
{
	struct policy a = {0}, b = {0};
	struct buf text = BUF_INIT(1 << 20), diff = BUF_INIT(1 << 20);

	CHECK_INT(resolve(&a, "f", full, LAYER_USER), 0);
	policy_show(&a, &text);
	CHECK(strstr(buf_str(&text), "/b  # f:7"));
	CHECK(strstr(buf_str(&text), "/usr  # profile python"));
	CHECK(strstr(buf_str(&text), "/etc/croft  # floor"));
	CHECK(strstr(buf_str(&text), "\"/z\\U0000202e\"")); /* never raw on a terminal */
	CHECK(!strstr(buf_str(&text), "\xe2\x80\xae"));
	CHECK_INT(resolve(&b, "shown", buf_str(&text), LAYER_USER), 0);
	policy_diff(&a, &b, &diff);
	CHECK_STR(buf_str(&diff), "");
	CHECK_STR(a.digest.hex, b.digest.hex);
	buf_done(&text);
	buf_done(&diff);
	policy_done(&a);
	policy_done(&b);
}

TEST(secrets_stay_out_of_evidence)
{
	static const char text[] = "version: 1\nenvironment: {set: {TOKEN: hunter2hunter2}}\n";
	struct policy p = {0};
	struct buf b = BUF_INIT(1 << 20);

	CHECK_INT(resolve(&p, "f", text, LAYER_CLI), 0);
	policy_canonical(&p, &b);
	policy_json(&p, &b);
	CHECK(strstr(buf_str(&b), "TOKEN"));
	CHECK(!strstr(buf_str(&b), "hunter2"));
	buf_done(&b);
	policy_done(&p);
}

TEST(differences)
{
	struct policy a = {0}, b = {0};
	struct buf d = BUF_INIT(1 << 20);

	CHECK_INT(resolve(&a, "a",
			  "version: 1\nfilesystem: {read: [/x], write: [/y]}\nlimits: {pids: 10}\n",
			  LAYER_USER),
		0);
	CHECK_INT(resolve(&b, "b",
			  "version: 1\nfilesystem: {write: [/x], deny: [/z]}\nlimits: {pids: "
			  "20}\ntier: process\n"
			  "environment: {set: {A: v}, pass: [PP]}\ndevices: [/dev/kvm]\nnetwork: "
			  "{allow: [h.test]}\n",
			  LAYER_USER),
		0);
	CHECK_INT(policy_diff(&a, &a, &d), 0);
	CHECK_STR(buf_str(&d), "");
	CHECK_INT(policy_diff(&a, &b, &d), 9);
	CHECK_STR(buf_str(&d), "- tier auto\n+ tier process\n"
			       "- read /x (a:2)\n+ write /x (b:2)\n"
			       "- write /y (a:2)\n"
			       "+ deny /z (b:2)\n"
			       "+ environment.pass PP\n"
			       "+ environment.set A=v\n"
			       "- limits.pids 10\n+ limits.pids 20\n"
			       "+ device /dev/kvm\n"
			       "+ network allow h.test:80,443 http\n");
	buf_done(&d);
	policy_done(&a);
	policy_done(&b);
}

static const char *explain(const struct policy *p, const char *path)
{
	static struct buf b;

	buf_done(&b);
	b = BUF_INIT(1 << 20);
	policy_explain(p, path, &b);
	return buf_str(&b);
}

TEST(explanations)
{
	struct policy p = {0};

	CHECK_INT(resolve(&p, "p.yaml",
			  "version: 1\nfilesystem:\n  read: [~]\n  deny: ['./**/.env']\n",
			  LAYER_USER),
		0);
	CHECK_STR(explain(&p, "/home/u/.ssh/id"),
		"/home/u/.ssh/id: deny\n"
		"  decided by    deny /home/u/.ssh  (profile default)\n"
		"  less specific read /home/u  (p.yaml:3)\n"
		"  to read it    croft run --read /home/u/.ssh/id \xe2\x80\xa6, or filesystem.read "
		"in your policy\n"
		"  to write it   croft run --write-runs /home/u/.ssh/id \xe2\x80\xa6, "
		"or filesystem.write-runs in your policy\n");
	CHECK_STR(explain(&p, "/home/u/w/x"), "/home/u/w/x: write\n"
					      "  decided by    write /home/u/w  (profile default)\n"
					      "  less specific read /home/u  (p.yaml:3)\n");
	CHECK(strstr(explain(&p, "/home/u/w/a/.env"),
		"decided by    deny /home/u/w/**/.env  (p.yaml:4)"));
	CHECK(strstr(explain(&p, "/nowhere"), "no rule covers it"));
	CHECK(strstr(explain(&p, "/etc/croft/policy.yaml"),
		"no layer can give more than deny here: fixed by floor"));
	CHECK(strstr(explain(&p, "/home/u/w/croft.yaml"),
		"no layer can give more than read here: fixed by floor"));
	CHECK(strstr(explain(&p, "/a\x1b[31m"), "/a\\x1b[31m: deny"));
	explain(&p, "/");
	policy_done(&p);
}

TEST(json_shape)
{
	struct policy p = {0};
	struct buf b = BUF_INIT(1 << 20);

	CHECK_INT(resolve(&p, "f", full, LAYER_USER), 0);
	policy_json(&p, &b);
	CHECK(strstr(buf_str(&b), "\"tier\": \"process\""));
	CHECK(strstr(buf_str(&b), "\"cpus\": 1.500"));
	CHECK(strstr(buf_str(&b), "\"timeout_ms\": 90000"));
	CHECK(strstr(buf_str(&b), "\"path\": \"/home/u/w/**/.env\""));
	CHECK(!b.failed);
	buf_done(&b);
	policy_done(&p);
}
