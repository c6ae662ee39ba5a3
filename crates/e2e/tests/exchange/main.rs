//! Buffers and pages that change hands between functions.

mod group;
mod pages;
mod proxy;
mod zcopy;
