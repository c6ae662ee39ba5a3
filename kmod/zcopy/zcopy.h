/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* The interface of /dev/zcopy; docs/zcopy.md has the contract. */
#ifndef ZCOPY_H
#define ZCOPY_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Most pairs of pages in one call. */
#define ZCOPY_MAX_PAIRS 256

/*
 * A flag of an area: its owner agrees that a page which came from another
 * area returns there as it is, with all that the owner has left in it.
 */
#define ZCOPY_RETURNS 1

struct zcopy_size {
	__u64 pages;
	__u32 flags;
	__u32 reserved;
};

/*
 * The page `here` of the area that the call is made on goes to the other area,
 * in exchange for its page `there`. Of the former, `len` bytes from `start` are
 * sent on purpose.
 */
struct zcopy_pair {
	__u32 here;
	__u32 there;
	__u16 start;
	__u16 len;
};

struct zcopy_exchange {
	__s32 other_fd;
	__u32 count;
	__u32 flags;
	__u32 reserved;
	__u64 pairs;
	/* Written by the call: a bit for each pair that was not exchanged. */
	__u64 skipped[ZCOPY_MAX_PAIRS / 64];
};

struct zcopy_stats {
	/* Of this area. */
	__u64 id;
	__u64 area_pages;
	/* Of the whole module: present numbers. */
	__u64 areas;
	__u64 pages;
	/* Events so far. */
	__u64 calls;
	__u64 exchanged;
	__u64 skipped;
	__u64 zeroed;
	__u64 trimmed;
	__u64 flushes;
	__u64 faults;
};

/* Gives the area its pages, once. */
#define ZCOPY_SIZE _IOW(0xee, 0x60, struct zcopy_size)
/* Exchanges pages with another area; returns the number of pairs exchanged. */
#define ZCOPY_EXCHANGE _IOWR(0xee, 0x61, struct zcopy_exchange)
#define ZCOPY_STATS _IOR(0xee, 0x62, struct zcopy_stats)

#endif
