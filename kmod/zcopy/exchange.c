// SPDX-License-Identifier: GPL-2.0
/*
 * The exchange of pages between two areas, A (`here`) and B (`there`).
 *
 * Visible bytes. A page P goes from A to B with a frame in it, and a page Q
 * comes from B to A in its place. These bytes of a page count as an area's:
 * those that were written while the page was in a slot of the area, and those
 * that the area sent on purpose.
 *
 * Invariant: a page in a slot of area A holds bytes of A, bytes of the area that
 * its slot names in `from`, and zeros. If `from` is 0, it holds none of others.
 *
 * New pages are zero, and a program that maps A writes bytes of A, so only
 * exchanges have to keep it:
 *
 * - P holds bytes of A and of P.from. The frame is sent on purpose. If P.from is
 *   a third area, all bytes beyond the frame become zero (`trim`). So B gets
 *   bytes of A and bytes of its own, and `from` = A says so. That A leaves
 *   nothing secret of its own around the frame is A's responsibility.
 *
 * - Nobody sends anything in Q. If Q.from is not A, Q becomes zero and `from` =
 *   0. Otherwise Q holds bytes of A, which it had seen, and bytes written
 *   since Q came to B. If something was, Q becomes zero, unless B agrees that it
 *   returns as it is (ZCOPY_RETURNS). In both cases `from` = B is true.
 *
 * So a third area's bytes pass neither way, except in a frame that their
 * receiver sends on.
 *
 * Whether Q was written to since it came is its dirty flag. It is cleared when a
 * page changes areas, when no page table maps the page and nobody else has it.
 * Page tables of processes and of KVM pass their dirty bits on when the page is
 * taken out of them, and code that pins a page to write to it must set the flag
 * before it unpins the page (Documentation/core-api/pin_user_pages.rst).
 *
 * Access to a page. Both semaphores are held for writing from before the
 * pages are taken out of all page tables until they lie in their new slots, and
 * faults insert pages only while they hold one for reading. So between the two
 * no page table maps the page. Taking it out flushes TLBs, and runs the MMU
 * notifiers of KVM. A user that has the page by its address (O_DIRECT, AF_XDP,
 * a pipe, VFIO) holds a reference, which shows in its count: such a page stays
 * where it is. Nobody gets a new reference without a page table.
 */
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/page-flags.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/*
 * Most mappings of an area that takes part in exchanges: a call goes through all
 * of them, with both semaphores held, and the owner of an area decides how many
 * there are.
 */
static unsigned int max_mappings = 64;
module_param(max_mappings, uint, 0644);
MODULE_PARM_DESC(max_mappings,
		 "most mappings of an area that takes part in exchanges");

static bool has_too_many_mappings(struct zcopy_area *area)
{
	return atomic_long_read(&area->mappings) > READ_ONCE(max_mappings);
}

static bool is_valid(const struct zcopy_pair *pair, struct zcopy_area *here,
		     struct zcopy_area *there)
{
	return pair->here < zcopy_area_pages(here) &&
	       pair->there < zcopy_area_pages(there) &&
	       (u32)pair->start + pair->len <= PAGE_SIZE;
}

/*
 * Pairs that are exchanged before others get the semaphores: a fault waits for
 * this many, however many pairs a call has.
 */
#define SLICE 16

/* Two threads that exchange between the same areas take them in one order. */
static void begin_call(struct zcopy_area *a, struct zcopy_area *b)
{
	if (a > b)
		swap(a, b);
	mutex_lock(&a->exchanging);
	mutex_lock_nested(&b->exchanging, SINGLE_DEPTH_NESTING);
}

static void end_call(struct zcopy_area *a, struct zcopy_area *b)
{
	mutex_unlock(&a->exchanging);
	mutex_unlock(&b->exchanging);
}

static void lock_both(struct zcopy_area *a, struct zcopy_area *b)
{
	if (a > b)
		swap(a, b);
	down_write(&a->sem);
	down_write_nested(&b->sem, SINGLE_DEPTH_NESTING);
}

/* Undoes `take` for the first `count` pairs. */
static void untake(struct zcopy_slot *here, struct zcopy_slot *there,
		   const struct zcopy_pair *pairs, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		here[pairs[i].here].taken = false;
		there[pairs[i].there].taken = false;
	}
}

/* Marks all places of a call; fails if one is in it twice. */
static int take(struct zcopy_slot *here, struct zcopy_slot *there,
		const struct zcopy_pair *pairs, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		struct zcopy_slot *p = &here[pairs[i].here];
		struct zcopy_slot *q = &there[pairs[i].there];

		if (p->taken || q->taken) {
			untake(here, there, pairs, i);
			return -EINVAL;
		}
		p->taken = true;
		q->taken = true;
	}
	return 0;
}

#ifdef ZCOPY_TEST_NOFLUSH

/* Leaves translations as they are, so that a test can prove that it sees it. */
static void flush(struct zcopy_area *area, const struct zcopy_pair *pairs,
		  const u32 *place, u32 count)
{
}

static bool is_held(struct page *page)
{
	return false;
}

#else

/*
 * Takes pages out of all page tables. `place` is the page's number in the first
 * pair. Neighbours that follow each other in the call go at once.
 */
static void flush(struct zcopy_area *area, const struct zcopy_pair *pairs,
		  const u32 *place, u32 count)
{
	const u32 stride = sizeof(*pairs) / sizeof(*place);
	u32 first, end, runs = 0;

	for (first = 0; first < count; first = end) {
		u64 begin = place[first * stride];

		end = first + 1;
		while (end < count && place[end * stride] == begin + end - first)
			end++;
		unmap_mapping_range(&area->mapping, begin << PAGE_SHIFT,
				    (loff_t)(end - first) << PAGE_SHIFT, 1);
		runs++;
	}
	zcopy_count(flushes, runs);
}

/* Reports whether anybody but its slot has the page. */
static bool is_held(struct page *page)
{
	return page_count(page) != 1;
}

#endif

/* Clears all bytes of the page from `here` to `there` that may not go there. */
static void trim(struct zcopy_slot *p, const struct zcopy_pair *pair,
		 struct zcopy_area *here, struct zcopy_area *there)
{
	if (p->from && p->from != there->id && pair->len < PAGE_SIZE) {
		u32 end = pair->start + pair->len;

		memzero_page(p->page, 0, pair->start);
		memzero_page(p->page, end, PAGE_SIZE - end);
		zcopy_count(trimmed, 1);
	}
	p->from = here->id;
}

/* Clears the page from `there` to `here` unless its bytes may come here. */
static void wash(struct zcopy_slot *q, struct zcopy_area *here,
		 struct zcopy_area *there)
{
	bool returns = there->flags & ZCOPY_RETURNS || !PageDirty(q->page);

	if (q->from == here->id && returns) {
		q->from = there->id;
		return;
	}
	clear_highpage(q->page);
	zcopy_count(zeroed, 1);
	q->from = 0;
}

static bool exchange(struct zcopy_slot *p, struct zcopy_slot *q,
		     const struct zcopy_pair *pair, struct zcopy_area *here,
		     struct zcopy_area *there)
{
	if (is_held(p->page) || is_held(q->page))
		return false;
	trim(p, pair, here, there);
	wash(q, here, there);
	ClearPageDirty(p->page);
	ClearPageDirty(q->page);
	swap(p->page, q->page);
	swap(p->from, q->from);
	return true;
}

/* Exchanges the pairs from `first` to `end`; returns how many were not held. */
static long exchange_slice(struct zcopy_area *here, struct zcopy_area *there,
			   struct zcopy_exchange *call,
			   const struct zcopy_pair *pairs, u32 first, u32 end)
{
	long done = 0;
	u32 i;

	lock_both(here, there);
	flush(here, &pairs[first], &pairs[first].here, end - first);
	flush(there, &pairs[first], &pairs[first].there, end - first);
	for (i = first; i < end; i++) {
		struct zcopy_slot *p = &here->slots[pairs[i].here];
		struct zcopy_slot *q = &there->slots[pairs[i].there];

		if (exchange(p, q, &pairs[i], here, there))
			done++;
		else
			call->skipped[i / 64] |= 1ULL << i % 64;
	}
	here->exchanged += done;
	there->exchanged += done;
	up_write(&there->sem);
	up_write(&here->sem);
	return done;
}

static long exchange_pairs(struct zcopy_area *here, struct zcopy_area *there,
			   struct zcopy_exchange *call,
			   const struct zcopy_pair *pairs)
{
	u32 first, count = call->count;
	long done = 0;
	int err;

	begin_call(here, there);
	err = take(here->slots, there->slots, pairs, count);
	if (!err) {
		for (first = 0; first < count; first += SLICE) {
			u32 end = min_t(u32, first + SLICE, count);

			done += exchange_slice(here, there, call, pairs, first,
					       end);
			cond_resched();
		}
		untake(here->slots, there->slots, pairs, count);
	}
	end_call(here, there);
	if (err)
		return err;
	zcopy_count(calls, 1);
	zcopy_count(exchanged, done);
	zcopy_count(skipped, count - done);
	return done;
}

/*
 * Exchanges pages: all or none, if the call is wrong; and otherwise all that
 * nobody holds. Returns their number.
 */
long zcopy_exchange(struct zcopy_area *here, struct zcopy_area *there,
		    struct zcopy_exchange *call)
{
	struct zcopy_pair *pairs;
	long done = -EINVAL;
	u32 i;

	if (here == there)
		return -EINVAL;
	if (has_too_many_mappings(here) || has_too_many_mappings(there))
		return -EMFILE;
	pairs = memdup_user(u64_to_user_ptr(call->pairs),
			    call->count * sizeof(*pairs));
	if (IS_ERR(pairs))
		return PTR_ERR(pairs);
	for (i = 0; i < call->count; i++)
		if (!is_valid(&pairs[i], here, there))
			goto free;
	done = exchange_pairs(here, there, call, pairs);
free:
	kfree(pairs);
	return done;
}
