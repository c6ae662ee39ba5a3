//! An array with structural sharing: a copy costs nothing, and a change copies one page.

use std::sync::Arc;

/// Entries of a page.
const PAGE: usize = 256;

type Page<T> = Arc<[Option<Arc<T>>]>;

/// A sparse array. A clone is a snapshot, which shares all pages that have not changed since.
#[derive(Debug)]
pub(super) struct Pages<T>(Arc<[Page<T>]>);

impl<T> Clone for Pages<T> {
    fn clone(&self) -> Self {
        Pages(self.0.clone())
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages([].into())
    }
}

impl<T> Pages<T> {
    /// Returns an entry.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        self.0.get(index / PAGE)?.get(index % PAGE)?.as_deref()
    }

    /// Sets an entry.
    pub fn set(&mut self, index: u32, value: Option<T>) {
        let (page, at) = (index as usize / PAGE, index as usize % PAGE);
        if page >= self.0.len() {
            let empty = || std::iter::repeat_with(|| None).take(PAGE).collect();
            self.0 = self.0.iter().cloned().chain(std::iter::repeat_with(empty)).take(page + 1).collect();
        }
        Arc::make_mut(&mut Arc::make_mut(&mut self.0)[page])[at] = value.map(Arc::new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_does_not_change() {
        let mut pages = Pages::default();
        for index in [0, 255, 256, 5000] {
            pages.set(index, Some(index));
        }
        let snapshot = pages.clone();
        pages.set(256, None);
        pages.set(0, Some(7));
        pages.set(9000, Some(1));
        let of = |pages: &Pages<u32>| [0, 1, 255, 256, 5000, 9000, 70_000].map(|index| pages.get(index).copied());
        assert_eq!(of(&snapshot), [Some(0), None, Some(255), Some(256), Some(5000), None, None]);
        assert_eq!(of(&pages), [Some(7), None, Some(255), None, Some(5000), Some(1), None]);
        assert!(Arc::ptr_eq(&snapshot.0[19], &pages.0[19]), "a page that has not changed is shared");
    }
}
