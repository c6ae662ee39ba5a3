// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/zcopy: each open file is an area of memory whose pages can be exchanged
 * with those of another one.
 */
#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/file.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "internal.h"

static int device_open(struct inode *inode, struct file *file)
{
	struct zcopy_area *area = zcopy_area_new(inode);

	if (!area)
		return -ENOMEM;
	file->private_data = area;
	file->f_mapping = &area->mapping;
	return 0;
}

/* The last descriptor and the last mapping are gone. */
static int device_release(struct inode *inode, struct file *file)
{
	zcopy_area_free(file->private_data);
	return 0;
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	return zcopy_area_map(file->private_data, vma);
}

/* A process that maps a descriptor which it was given learns its length here. */
static loff_t device_llseek(struct file *file, loff_t offset, int whence)
{
	loff_t size = (loff_t)zcopy_area_pages(file->private_data) << PAGE_SHIFT;

	return fixed_size_llseek(file, offset, whence, size);
}

static long size_ioctl(struct file *file, void __user *arg)
{
	struct zcopy_size size;

	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (copy_from_user(&size, arg, sizeof(size)))
		return -EFAULT;
	if (size.reserved)
		return -EINVAL;
	return zcopy_area_size(file->private_data, size.pages, size.flags);
}

static long exchange_ioctl(struct file *file, struct zcopy_exchange __user *arg)
{
	struct zcopy_exchange call;
	struct file *other;
	long done;

	/*
	 * The switch, which holds both areas' semaphores meanwhile. An owner of
	 * areas could keep it waiting.
	 */
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (copy_from_user(&call, arg, sizeof(call)))
		return -EFAULT;
	if (!call.count || call.count > ZCOPY_MAX_PAIRS || call.flags ||
	    call.reserved)
		return -EINVAL;
	/* Proves that the answer can be written, before anything is done. */
	if (clear_user(arg->skipped, sizeof(arg->skipped)))
		return -EFAULT;
	memset(call.skipped, 0, sizeof(call.skipped));
	other = fget(call.other_fd);
	if (!other)
		return -EBADF;
	if (other->f_op != &zcopy_fops || !(other->f_mode & FMODE_WRITE))
		done = -EBADF;
	else
		done = zcopy_exchange(file->private_data, other->private_data,
				      &call);
	fput(other);
	if (done >= 0 && done < call.count &&
	    copy_to_user(arg->skipped, call.skipped, sizeof(call.skipped)))
		return -EFAULT;
	return done;
}

static long stats_ioctl(struct file *file, void __user *arg)
{
	struct zcopy_area *area = file->private_data;
	struct zcopy_stats stats = {
		.id = area->id,
		.area_pages = zcopy_area_pages(area),
	};

	zcopy_stats(&stats);
	return copy_to_user(arg, &stats, sizeof(stats)) ? -EFAULT : 0;
}

/* /proc/PID/fdinfo: state and counters of this area. */
static void device_fdinfo(struct seq_file *out, struct file *file)
{
	struct zcopy_area *area = file->private_data;

	seq_printf(out, "zcopy-id:\t%llu\nzcopy-pages:\t%lu\n", area->id,
		   zcopy_area_pages(area));
	seq_printf(out, "zcopy-mappings:\t%ld\nzcopy-faults:\t%ld\n",
		   atomic_long_read(&area->mappings),
		   atomic_long_read(&area->faults));
	seq_printf(out, "zcopy-exchanged:\t%llu\n",
		   READ_ONCE(area->exchanged));
}

static long device_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case ZCOPY_SIZE:
		return size_ioctl(file, user);
	case ZCOPY_EXCHANGE:
		return exchange_ioctl(file, user);
	case ZCOPY_STATS:
		return stats_ioctl(file, user);
	default:
		return -ENOTTY;
	}
}

const struct file_operations zcopy_fops = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.mmap = device_mmap,
	.llseek = device_llseek,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.show_fdinfo = device_fdinfo,
};

static struct miscdevice zcopy_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "zcopy",
	.fops = &zcopy_fops,
	.mode = 0600,
};
module_misc_device(zcopy_device);

MODULE_DESCRIPTION("Exchange of pages between areas of shared memory");
MODULE_LICENSE("GPL");
