//! The fence and the words that the memory-ordering core is written with: the real ones, and loom's to model it.

use std::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::fence;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::fence;

/// An atomic word of a ring.
pub trait Word {
    /// What it holds.
    type Value;
    /// As the atomics' `load`.
    fn load(&self, order: Ordering) -> Self::Value;
    /// As the atomics' `store`.
    fn store(&self, value: Self::Value, order: Ordering);
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word for $atomic {
            type Value = $value;
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order)
            }
        }
    };
}

word!(std::sync::atomic::AtomicU16, u16);
word!(std::sync::atomic::AtomicU32, u32);
word!(std::sync::atomic::AtomicU64, u64);
#[cfg(loom)]
word!(loom::sync::atomic::AtomicU16, u16);
#[cfg(loom)]
word!(loom::sync::atomic::AtomicU64, u64);
