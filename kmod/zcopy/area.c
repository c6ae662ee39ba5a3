// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of an area, their lifetime, and their mappings.
 *
 * A page belongs to one slot of one area. It has one reference of the slot, and
 * one of each page table that maps it; any other one belongs to a user who got the
 * page by its address, and makes an exchange leave the page where it is.
 */
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "internal.h"

/*
 * An exchange takes its pages out of all page tables, and bursts exchange
 * neighbours: one fault then brings several of them back.
 */
static unsigned int fault_around = 16;
module_param(fault_around, uint, 0644);
MODULE_PARM_DESC(fault_around, "most pages that one fault maps");

static atomic64_t last_id;

struct zcopy_area *zcopy_area_new(struct inode *inode)
{
	struct zcopy_area *area = kzalloc(sizeof(*area), GFP_KERNEL_ACCOUNT);

	if (!area)
		return NULL;
	area->user = zcopy_user_get();
	if (!area->user) {
		kfree(area);
		return NULL;
	}
	area->id = atomic64_inc_return(&last_id);
	mutex_init(&area->exchanging);
	init_rwsem(&area->sem);
	/*
	 * The inode's own mapping would hold all areas, and an exchange would
	 * take pages out of the page tables of strangers.
	 */
	address_space_init_once(&area->mapping);
	init_rwsem(&area->mapping.invalidate_lock);
	area->mapping.host = inode;
	area->mapping.a_ops = &empty_aops;
	atomic_long_inc(&zcopy_areas);
	return area;
}

static void free_slots(struct zcopy_slot *slots, unsigned long pages)
{
	unsigned long i;

	for (i = 0; i < pages; i++) {
		put_page(slots[i].page);
		if (!(i % 1024))
			cond_resched();
	}
	kvfree(slots);
}

void zcopy_area_free(struct zcopy_area *area)
{
	if (area->slots) {
		free_slots(area->slots, area->pages);
		zcopy_user_uncharge(area->user, area->pages);
	}
	atomic_long_dec(&zcopy_areas);
	zcopy_user_put(area->user);
	kfree(area);
}

static struct zcopy_slot *new_slots(unsigned long pages)
{
	struct zcopy_slot *slots;
	unsigned long i;
	int err = -ENOMEM;

	slots = kvcalloc(pages, sizeof(*slots), GFP_KERNEL_ACCOUNT);
	if (!slots)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < pages; i++) {
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			goto free;
		}
		slots[i].page = alloc_page(GFP_HIGHUSER | __GFP_ZERO |
					   __GFP_ACCOUNT | __GFP_RETRY_MAYFAIL);
		if (!slots[i].page)
			goto free;
		cond_resched();
	}
	return slots;

free:
	free_slots(slots, i);
	return ERR_PTR(err);
}

/* Gives an area its pages; they never become more or fewer. */
int zcopy_area_size(struct zcopy_area *area, u64 pages, u32 flags)
{
	struct zcopy_slot *slots;
	int err;

	/* Places have numbers of 32 bits. */
	if (!pages || pages > U32_MAX || flags & ~ZCOPY_RETURNS)
		return -EINVAL;
	if (zcopy_area_pages(area))
		return -EBUSY;
	err = zcopy_user_charge(area->user, pages);
	if (err)
		return err;
	slots = new_slots(pages);
	if (IS_ERR(slots)) {
		err = PTR_ERR(slots);
		goto uncount;
	}
	down_write(&area->sem);
	err = area->pages ? -EBUSY : 0;
	if (!err) {
		area->slots = slots;
		area->flags = flags;
		/* Pairs with zcopy_area_pages(). */
		smp_store_release(&area->pages, pages);
	}
	up_write(&area->sem);
	if (!err)
		return 0;
	free_slots(slots, pages);
uncount:
	zcopy_user_uncharge(area->user, pages);
	return err;
}

static int no_change(pte_t *pte, unsigned long addr, void *data)
{
	return 0;
}

/*
 * Allocates the page table for an address. Memory of a guest's cgroup may be
 * long in coming, and exchanges wait for the holder of the semaphore.
 */
static int make_page_table(struct mm_struct *mm, unsigned long addr)
{
	return apply_to_page_range(mm, addr, PAGE_SIZE, no_change, NULL);
}

static vm_fault_t area_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct zcopy_area *area = vma->vm_file->private_data;
	unsigned long addr = vmf->address & PAGE_MASK;
	/* Never beyond the mapping, nor into another page table. */
	unsigned long end = min(vma->vm_end, (addr & PMD_MASK) + PMD_SIZE);
	unsigned long most = clamp(READ_ONCE(fault_around), 1U, 512U);
	unsigned long at = vmf->pgoff;
	vm_fault_t ret;

	zcopy_count(faults, 1);
	atomic_long_inc(&area->faults);
	if (make_page_table(vma->vm_mm, addr))
		return VM_FAULT_OOM;
	down_read(&area->sem);
	if (at >= area->pages) {
		up_read(&area->sem);
		return VM_FAULT_SIGBUS;
	}
	ret = vmf_insert_page(vma, addr, area->slots[at].page);
	while (ret == VM_FAULT_NOPAGE && --most && ++at < area->pages) {
		addr += PAGE_SIZE;
		/* Pages that are mapped already end the run. */
		if (addr >= end || vm_insert_page(vma, addr, area->slots[at].page))
			break;
	}
	up_read(&area->sem);
	return ret;
}

/* A mapping is copied by fork(2), moved, or divided. */
static void area_open(struct vm_area_struct *vma)
{
	struct zcopy_area *area = vma->vm_file->private_data;

	atomic_long_inc(&area->mappings);
}

static void area_close(struct vm_area_struct *vma)
{
	struct zcopy_area *area = vma->vm_file->private_data;

	atomic_long_dec(&area->mappings);
}

static const struct vm_operations_struct area_vm_ops = {
	.open = area_open,
	.close = area_close,
	.fault = area_fault,
};

int zcopy_area_map(struct zcopy_area *area, struct vm_area_struct *vma)
{
	unsigned long pages = vma_pages(vma);
	int err;

	/* A private mapping would keep copies of pages that were given away. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	/* Programs that know only files map all that they want at once. */
	if (!zcopy_area_pages(area) && !vma->vm_pgoff) {
		err = zcopy_area_size(area, pages, 0);
		if (err && err != -EBUSY)
			return err;
	}
	if (vma->vm_pgoff > zcopy_area_pages(area) ||
	    pages > zcopy_area_pages(area) - vma->vm_pgoff)
		return -EINVAL;
	/* Pages with references, as get_user_pages and KVM need them. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND);
#else
	vma->vm_flags |= VM_MIXEDMAP | VM_DONTEXPAND;
#endif
	vma->vm_ops = &area_vm_ops;
	area_open(vma);
	return 0;
}
