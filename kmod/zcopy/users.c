// SPDX-License-Identifier: GPL-2.0
/* Pages of all areas, and of those of each user: nobody takes the share of others. */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "internal.h"

static unsigned long max_pages;
module_param(max_pages, ulong, 0644);
MODULE_PARM_DESC(max_pages,
		 "most pages of all areas together; 0 is a quarter of the memory");

static unsigned long max_user_pages;
module_param(max_user_pages, ulong, 0644);
MODULE_PARM_DESC(max_user_pages,
		 "most pages of the areas of one user; 0 is half of those of all");

/* Protects all users and their totals. */
static DEFINE_MUTEX(users_lock);
static LIST_HEAD(users);

/* Returns the user of this process. */
struct zcopy_user *zcopy_user_get(void)
{
	struct zcopy_user *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	struct zcopy_user *user;

	if (!new)
		return NULL;
	new->uid = current_uid();
	mutex_lock(&users_lock);
	list_for_each_entry(user, &users, list)
		if (uid_eq(user->uid, new->uid))
			goto found;
	user = new;
	new = NULL;
	list_add(&user->list, &users);
found:
	user->areas++;
	mutex_unlock(&users_lock);
	kfree(new);
	return user;
}

void zcopy_user_put(struct zcopy_user *user)
{
	bool is_last;

	mutex_lock(&users_lock);
	is_last = !--user->areas;
	if (is_last)
		list_del(&user->list);
	mutex_unlock(&users_lock);
	if (is_last)
		kfree(user);
}

/* Charges the pages of a new area to its user, unless that exceeds a limit. */
int zcopy_user_charge(struct zcopy_user *user, unsigned long pages)
{
	unsigned long all = READ_ONCE(max_pages), own = READ_ONCE(max_user_pages);
	int err = -ENOSPC;

	if (!all)
		all = totalram_pages() / 4;
	if (!own)
		own = all / 2;
	/* The administrator decides for himself. */
	if (capable(CAP_SYS_RESOURCE))
		own = all;
	mutex_lock(&users_lock);
	/* Checked before anything is added: others are not refused meanwhile. */
	if (pages <= all && atomic_long_read(&zcopy_pages) <= all - pages &&
	    pages <= own && user->pages <= own - pages) {
		atomic_long_add(pages, &zcopy_pages);
		user->pages += pages;
		err = 0;
	}
	mutex_unlock(&users_lock);
	return err;
}

void zcopy_user_uncharge(struct zcopy_user *user, unsigned long pages)
{
	mutex_lock(&users_lock);
	atomic_long_sub(pages, &zcopy_pages);
	user->pages -= pages;
	mutex_unlock(&users_lock);
}
