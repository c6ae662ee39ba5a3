//! Parts of the memory with different page sizes.

/// A part of the memory with one page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Address of the first byte in the memory.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Size of its pages: contiguous for hardware, and aligned to this size in virtual addresses.
    pub page: u64,
}

impl Area {
    #[inline]
    pub(super) fn holds(&self, address: u64, len: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|at| len <= self.len && at <= self.len - len)
    }
}

/// Returns the first error in the areas of a memory of `len` bytes.
pub(super) fn problem(areas: &[Area], len: u64, page: u64) -> Option<String> {
    areas.iter().find_map(|area| {
        if area.len > len || area.start > len - area.len {
            Some(format!("the area of {} bytes at {} is not in its {len} bytes", area.len, area.start))
        } else if !area.page.is_power_of_two() || area.page < page {
            Some(format!("{} is not a size of pages", area.page))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems() {
        let good = Area { start: 4096, len: 4096, page: 4096 };
        assert_eq!(problem(&[good, good], 8192, 4096), None);
        for bad in [
            Area { start: 4097, ..good },
            Area { len: 8192, ..good },
            Area { start: u64::MAX, ..good },
            Area { len: u64::MAX, ..good },
            Area { page: 0, ..good },
            Area { page: 2048, ..good },
            Area { page: 5000, ..good },
        ] {
            problem(&[good, bad], 8192, 4096).unwrap();
        }
    }

    #[test]
    fn bytes_inside() {
        let area = Area { start: 100, len: 10, page: 4096 };
        assert!(area.holds(100, 10) && area.holds(110, 0));
        assert!(!area.holds(99, 2) && !area.holds(101, 10) && !area.holds(u64::MAX, 1));
    }
}
