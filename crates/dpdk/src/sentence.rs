//! Calls of the plugin that can fail, and strings that it returns.

use crate::abi::ERROR;
use crate::error::{Error, Result};
use std::ffi::{CStr, c_char, c_int};

/// Calls a function of the plugin that writes a sentence if it fails.
pub fn call(function: impl FnOnce(*mut c_char) -> c_int) -> Result<()> {
    let mut sentence = [0; ERROR];
    match function(sentence.as_mut_ptr()) {
        0 => Ok(()),
        failed => Err(Error::Failed { sentence: text(&sentence), errno: -failed }),
    }
}

/// Returns the text of an array, up to its first zero.
pub fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|&byte| byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::from_utf8_lossy(&bytes).into_owned(), |text| text.to_string_lossy().into_owned())
}
