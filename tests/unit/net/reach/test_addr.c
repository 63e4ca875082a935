/* SPDX-License-Identifier: Apache-2.0 */
/* net/addr: the floor under every rule. */
#include "test.h"

#include "base/cleanup.h"
#include "net/reach/addr.h"

static enum addr_class class_of(const char *text, const struct addr_host *h)
{
	struct net_addr a;

	if (!net_addr_parse(&a, text, strlen(text)))
		return ADDR_CLASS_NUM;
	return addr_classify(&a, h);
}

static bool all(const char *const *list, size_t n, enum addr_class want)
{
	for (size_t i = 0; i < n; i++)
		if (class_of(list[i], NULL) != want) {
			printf("# %s is %d\n", list[i], class_of(list[i], NULL));
			return false;
		}
	return true;
}

TEST(public_addresses_pass)
{
	static const char *const list[] = {"1.1.1.1", "8.8.8.8", "192.0.2.1", "198.51.100.7",
		"203.0.113.9", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
		"198.17.255.255", "198.20.0.0", "223.255.255.255", "11.0.0.0", "168.63.129.15",
		"2606:4700::1111", "2001:db8::1", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
		"2002:808:808::1"};

	CHECK(all(list, ARRAY_SIZE(list), ADDR_PUBLIC));
}

TEST(private_addresses_need_a_rule)
{
	static const char *const list[] = {"10.0.0.1", "10.255.255.255", "172.16.0.1",
		"172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255", "198.18.0.1",
		"198.19.255.255", "fc00::1", "fd12:3456::1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
		"2002:a00:1::1", "::ffff:0:10.0.0.1", "64:ff9b:1::808:808"};

	CHECK(all(list, ARRAY_SIZE(list), ADDR_PRIVATE));
}

TEST(the_machine_its_link_and_its_cloud_are_out_of_reach)
{
	static const char *const list[] = {"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254",
		"169.254.1.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"192.0.0.1", "::", "::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "100::1",
		/* metadata services, also those outside link-local */
		"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200",
		"192.0.0.192", "fd00:ec2::254", "fd00:ec2:1::", "fd20:ce::254",
		"fd00:c1::a9fe:a9fe", "fd00:42::42"};

	CHECK(all(list, ARRAY_SIZE(list), ADDR_FORBIDDEN));
}

TEST(an_address_inside_another_is_judged)
{
	static const char *const list[] = {"::ffff:127.0.0.1", "::ffff:169.254.169.254",
		"::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1",
		"64:ff9b::a9fe:a9fe",
		/* the local NAT64 prefix in each of its layouts: /48, /56, /64, /96 */
		"64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00:0",
		"64:ff9b:1::169.254.169.254", "2002:7f00:1::", "2002:a9fe:a9fe::1",
		/* Teredo: its server in plain, its client inverted */
		"2001:0:7f00:1::", "2001:0:808:808:0:0:5601:5601",
		/* ISATAP under a public prefix */
		"2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:169.254.169.254"};

	CHECK(all(list, ARRAY_SIZE(list), ADDR_FORBIDDEN));
}

TEST(own_addresses_are_forbidden_however_they_are_written)
{
	struct addr_host h = {.n = 2};

	CHECK(net_addr_parse(&h.v[0], "203.0.113.5", 11));
	CHECK(net_addr_parse(&h.v[1], "2606:4700::5", 12));
	CHECK_INT(class_of("203.0.113.5", &h), ADDR_FORBIDDEN);
	CHECK_INT(class_of("::ffff:203.0.113.5", &h), ADDR_FORBIDDEN);
	CHECK_INT(class_of("2002:cb00:7105::1", &h), ADDR_FORBIDDEN);
	CHECK_INT(class_of("2606:4700::5", &h), ADDR_FORBIDDEN);
	/* and only those */
	CHECK_INT(class_of("203.0.113.6", &h), ADDR_PUBLIC);
	CHECK_INT(class_of("203.0.113.5", NULL), ADDR_PUBLIC);
}

TEST(reasons_name_the_worst_of_it)
{
	struct net_addr a;

	CHECK(net_addr_parse(&a, "64:ff9b::a9fe:a9fe", 18));
	CHECK_STR(addr_why(&a, NULL), "is a cloud's metadata service");
	CHECK(net_addr_parse(&a, "10.1.2.3", 8));
	CHECK_STR(addr_why(&a, NULL), "is a private address");
}

TEST(mapped_addresses_become_ipv4)
{
	struct sockaddr_storage ss;
	struct net_addr a, b;
	uint16_t port = 0;

	CHECK(net_addr_parse(&a, "::ffff:1.2.3.4", 14));
	CHECK_INT(addr_to_sockaddr(&a, 443, &ss), sizeof(struct sockaddr_in6));
	CHECK(addr_from_sockaddr(&b, &port, &ss));
	CHECK(!b.v6);
	CHECK_INT(b.b[3], 4);
	CHECK_INT(port, 443);
	ss.ss_family = AF_UNIX;
	CHECK(!addr_from_sockaddr(&b, &port, &ss));
}

TEST(the_machines_own_list_loads)
{
	struct addr_host h = {0};

	CHECK_INT(addr_host_load(&h), 0);
	for (size_t i = 0; i < h.n; i++) {
		CHECK_INT(addr_classify(&h.v[i], &h), ADDR_FORBIDDEN);
		CHECK(addr_classify(&h.v[i], NULL) !=
			ADDR_FORBIDDEN); /* else it need not be in the list */
	}
}
