//! The words of rings: the real ones, and loom's for the models.

use std::sync::atomic::Ordering;

/// An atomic word of a ring.
pub trait Word {
    /// Type of its value.
    type Value;
    /// Loads the word, as the atomics' `load`.
    fn load(&self, order: Ordering) -> Self::Value;
    /// Stores the word, as the atomics' `store`.
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
