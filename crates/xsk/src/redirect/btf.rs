//! Functions of the kernel that programs may call, by number: from the kernel's description of its own types (BTF, as in the kernel's
//! Documentation/bpf/btf.rst).

use std::sync::OnceLock;

/// `BTF_MAGIC`, and the length of a header that has all fields that matter here.
const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;

/// `BTF_KIND_FUNC`.
const FUNCTION: u32 = 12;

/// Returns the number of the function that reads the VLAN tag beside a frame (Linux 6.8), if the kernel has and describes it.
pub(super) fn read_tag() -> Option<i32> {
    static NUMBER: OnceLock<Option<i32>> = OnceLock::new();
    // It stays the same until the machine reboots.
    *NUMBER.get_or_init(|| function(&std::fs::read("/sys/kernel/btf/vmlinux").ok()?, "bpf_xdp_metadata_rx_vlan_tag"))
}

/// Returns the number of a function in `btf`, if it is well-formed up to there.
fn function(btf: &[u8], name: &str) -> Option<i32> {
    let word = |at: usize| Some(u32::from_ne_bytes(*btf.get(at..)?.first_chunk()?));
    if u16::from_ne_bytes(*btf.first_chunk()?) != MAGIC {
        return None;
    }
    let header = word(4)? as usize;
    if header < HEADER {
        return None;
    }
    let part = |at: usize| {
        let start = header.checked_add(word(at)? as usize)?;
        btf.get(start..start.checked_add(word(at + 4)? as usize)?)
    };
    let (mut types, strings) = (part(8)?, part(16)?);
    let is_name = |at: usize| {
        let found = strings.get(at..).and_then(|rest| rest.get(..=name.len()));
        found.is_some_and(|found| found.starts_with(name.as_bytes()) && found.ends_with(&[0]))
    };
    // Type 0 is void, and not in the table.
    for number in 1.. {
        let (fixed, rest) = types.split_first_chunk::<12>()?;
        let word = |at: usize| u32::from_ne_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let (kind, members) = (word(4) >> 24 & 0x1f, (word(4) & 0xffff) as usize);
        if kind == FUNCTION && is_name(word(0) as usize) {
            return Some(number);
        }
        let more = match kind {
            // BTF_KIND_INT, VAR and DECL_TAG; ARRAY.
            1 | 14 | 17 => 4,
            3 => 12,
            // STRUCT, UNION, DATASEC and ENUM64; ENUM and FUNC_PROTO.
            4 | 5 | 15 | 19 => 12 * members,
            6 | 13 => 8 * members,
            // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT and TYPE_TAG.
            2 | 7..=12 | 16 | 18 => 0,
            _ => return None,
        };
        types = rest.get(more..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes types by (offset of the name, kind, members) with the bytes that follow them.
    fn describe(types: &[(u32, u32, u32, usize)], strings: &[u8]) -> Vec<u8> {
        let mut table = Vec::new();
        for &(name, kind, members, more) in types {
            table.extend([name, kind << 24 | members, 0].map(u32::to_ne_bytes).concat());
            table.extend(vec![0xee; more]);
        }
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        let sizes = [HEADER, 0, table.len(), table.len(), strings.len()];
        btf.extend(sizes.map(|size| (size as u32).to_ne_bytes()).concat());
        btf.extend(table);
        btf.extend(strings);
        btf
    }

    #[test]
    fn functions_are_found_behind_types_of_every_kind() {
        let types = [
            (1, 1, 0, 4),
            (1, 4, 3, 36),
            (1, 6, 2, 16),
            (1, 3, 0, 12),
            (1, 13, 1, 8),
            // A type with the name of the function, and a function with a longer name.
            (6, 8, 0, 0),
            (11, FUNCTION, 0, 0),
            (6, FUNCTION, 0, 0),
        ];
        let btf = describe(&types, b"\0some\0read\0read_all\0");
        assert_eq!(function(&btf, "read"), Some(8));
        assert_eq!(function(&btf, "read_all"), Some(7));
        assert_eq!(function(&btf, "some"), None);
        assert_eq!(function(&describe(&[(0, 31, 0, 0), (6, FUNCTION, 0, 0)], b"\0some\0read\0"), "read"), None);
        for cut in 0..btf.len() {
            function(&btf[..cut], "read");
        }
    }
}
