/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the files of the module share. */
#ifndef ZCOPY_INTERNAL_H
#define ZCOPY_INTERNAL_H

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rwsem.h>
#include <linux/uidgid.h>

#include "zcopy.h"

/* A place of an area, and the page that lies there now. */
struct zcopy_slot {
	struct page *page;
	/*
	 * The area that the page came from, if it may still hold bytes of that
	 * area; 0 if it holds bytes of its present area only.
	 */
	u64 from;
	/* The running call has this place; under `exchanging`. */
	bool taken;
};

/* Totals of the areas of one user. */
struct zcopy_user {
	struct list_head list;
	kuid_t uid;
	unsigned long areas;
	unsigned long pages;
};

/* The memory of one open file of /dev/zcopy. */
struct zcopy_area {
	/* Never used again for another area. */
	u64 id;
	struct zcopy_user *user;
	/*
	 * Mappings in all processes. An exchange goes through all of them, so
	 * that areas with very many take no part in exchanges.
	 */
	atomic_long_t mappings;
	atomic_long_t faults;
	/* Under the semaphore. */
	u64 exchanged;
	/* All mappings of this area, and of no other one. */
	struct address_space mapping;
	/* One call at a time exchanges pages of this area. Taken before `sem`. */
	struct mutex exchanging;
	/*
	 * Protects the slots. A fault inserts a page while it holds this for
	 * reading, so that a page which an exchange has taken out of all page
	 * tables can't come back. Taken after mmap_lock, before i_mmap_rwsem;
	 * nobody allocates, nor reaches for memory of users, while he holds it.
	 */
	struct rw_semaphore sem;
	/* Set once, after the slots. */
	unsigned long pages;
	u32 flags;
	struct zcopy_slot *slots;
};

/* area.c */
struct zcopy_area *zcopy_area_new(struct inode *inode);
void zcopy_area_free(struct zcopy_area *area);
int zcopy_area_size(struct zcopy_area *area, u64 pages, u32 flags);
int zcopy_area_map(struct zcopy_area *area, struct vm_area_struct *vma);

/* Returns the number of pages; a caller that sees it sees the slots. */
static inline unsigned long zcopy_area_pages(struct zcopy_area *area)
{
	/* Pairs with zcopy_area_size(). */
	return smp_load_acquire(&area->pages);
}

/* users.c */
struct zcopy_user *zcopy_user_get(void);
void zcopy_user_put(struct zcopy_user *user);
int zcopy_user_charge(struct zcopy_user *user, unsigned long pages);
void zcopy_user_uncharge(struct zcopy_user *user, unsigned long pages);

/* exchange.c */
long zcopy_exchange(struct zcopy_area *here, struct zcopy_area *there,
		    struct zcopy_exchange *call);

/* device.c */
extern const struct file_operations zcopy_fops;

/* counts.c */
struct zcopy_counts {
	u64 calls;
	u64 exchanged;
	u64 skipped;
	u64 zeroed;
	u64 trimmed;
	u64 flushes;
	u64 faults;
};

DECLARE_PER_CPU(struct zcopy_counts, zcopy_counts);
extern atomic_long_t zcopy_areas;
extern atomic_long_t zcopy_pages;

#define zcopy_count(what, n) this_cpu_add(zcopy_counts.what, n)

void zcopy_stats(struct zcopy_stats *stats);

#endif
