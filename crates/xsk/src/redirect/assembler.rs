//! An assembler for the few eBPF instructions of the redirect program (RFC 9669).

/// One instruction, or half of a double one (`struct bpf_insn` of linux/bpf.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Destination and source register, four bits each, ordered as C bit-fields are.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// Registers: R0 holds results, R1 to R5 arguments; calls keep R6. R10 points to the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R10 = 10,
}

/// Width of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Byte,
    Half,
    Word,
}

/// Condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Equal,
    NotEqual,
    /// Both operands have a set bit in common.
    AnyBit,
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

// Opcodes: class, operation or width, source or mode (RFC 9669 §3 to §5).
pub(super) const LOAD_BYTE: u8 = 0x71;
pub(super) const LOAD_HALF: u8 = 0x69;
pub(super) const LOAD_WORD: u8 = 0x61;
pub(super) const STORE_HALF: u8 = 0x6b;
pub(super) const STORE_WORD: u8 = 0x63;
pub(super) const STORE_IMMEDIATE_WORD: u8 = 0x62;
pub(super) const LOAD_IMMEDIATE_64: u8 = 0x18;
pub(super) const MOVE: u8 = 0xb7;
pub(super) const MOVE_REGISTER: u8 = 0xbf;
pub(super) const ADD: u8 = 0x07;
/// To the order of bytes on the wire.
pub(super) const BIG_ENDIAN: u8 = 0xdc;
pub(super) const JUMP_GREATER_REGISTER: u8 = 0x2d;
// These compare 32 bits, as 64-bit comparisons sign-extend their immediates.
pub(super) const JUMP: u8 = 0x05;
pub(super) const JUMP_EQUAL: u8 = 0x15;
pub(super) const JUMP_EQUAL_32: u8 = 0x16;
pub(super) const JUMP_NOT_EQUAL_32: u8 = 0x56;
pub(super) const JUMP_ANY_BIT_32: u8 = 0x46;
pub(super) const CALL: u8 = 0x85;
pub(super) const EXIT: u8 = 0x95;

/// `BPF_PSEUDO_MAP_FD`: the immediate is the file descriptor of a map, and the map's address is loaded.
pub(super) const MAP_FD: u8 = 1;
/// `BPF_PSEUDO_KFUNC_CALL`: the immediate is the number of a function of the kernel that is no helper.
pub(super) const KERNEL_FUNCTION: u8 = 2;

const fn registers(destination: u8, source: u8) -> u8 {
    if cfg!(target_endian = "little") { destination | source << 4 } else { destination << 4 | source }
}

/// A program being assembled.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    /// Jumps and their labels.
    jumps: Vec<(usize, Label)>,
    /// Position of each label, once it is placed.
    labels: Vec<Option<usize>>,
}

impl Assembler {
    fn add_raw(&mut self, code: u8, destination: Register, source: u8, offset: i16, immediate: i32) {
        let registers = registers(destination as u8, source);
        self.code.push(Instruction { code, registers, offset, immediate });
    }

    /// Creates a label, to be placed by [`Self::place`].
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places the label here.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `to = *(from + offset)`
    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        let code = match width {
            Width::Byte => LOAD_BYTE,
            Width::Half => LOAD_HALF,
            Width::Word => LOAD_WORD,
        };
        self.add_raw(code, to, from as u8, offset, 0);
    }

    /// `*(to + offset) = from`, of two or four bytes
    pub(super) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        let code = if width == Width::Half { STORE_HALF } else { STORE_WORD };
        self.add_raw(code, to, from as u8, offset, 0);
    }

    /// `*(to + offset) = 0`, of four bytes
    pub(super) fn clear_word(&mut self, to: Register, offset: i16) {
        self.add_raw(STORE_IMMEDIATE_WORD, to, 0, offset, 0);
    }

    /// Orders the low 16 bits as on the wire, and clears the others.
    pub(super) fn big_endian_16(&mut self, register: Register) {
        self.add_raw(BIG_ENDIAN, register, 0, 0, 16);
    }

    /// `to = address of the map`
    pub(super) fn load_map(&mut self, to: Register, fd: i32) {
        self.add_raw(LOAD_IMMEDIATE_64, to, MAP_FD, 0, fd);
        self.add_raw(0, Register::R0, 0, 0, 0);
    }

    /// `to = value`
    pub(super) fn set(&mut self, to: Register, value: i32) {
        self.add_raw(MOVE, to, 0, 0, value);
    }

    /// `to = from`
    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.add_raw(MOVE_REGISTER, to, from as u8, 0, 0);
    }

    /// `to += value`
    pub(super) fn add(&mut self, to: Register, value: i32) {
        self.add_raw(ADD, to, 0, 0, value);
    }

    /// `if left > right goto label`
    pub(super) fn jump_if_greater(&mut self, left: Register, right: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.add_raw(JUMP_GREATER_REGISTER, left, right as u8, 0, 0);
    }

    /// Jumps on a comparison of the register's low 32 bits with the value.
    pub(super) fn jump_if(&mut self, when: When, register: Register, value: u32, label: Label) {
        let code = match when {
            When::Equal => JUMP_EQUAL_32,
            When::NotEqual => JUMP_NOT_EQUAL_32,
            When::AnyBit => JUMP_ANY_BIT_32,
        };
        self.jumps.push((self.code.len(), label));
        self.add_raw(code, register, 0, 0, value.cast_signed());
    }

    /// `goto label`
    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.add_raw(JUMP, Register::R0, 0, 0, 0);
    }

    /// `if the pointer is null goto label`
    pub(super) fn jump_if_null(&mut self, pointer: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.add_raw(JUMP_EQUAL, pointer, 0, 0, 0);
    }

    /// Calls a function of the kernel that is no helper, by its number.
    pub(super) fn call_kernel(&mut self, function: i32) {
        self.add_raw(CALL, Register::R0, KERNEL_FUNCTION, 0, function);
    }

    /// Calls a helper function of the kernel.
    pub(super) fn call(&mut self, helper: i32) {
        self.add_raw(CALL, Register::R0, 0, 0, helper);
    }

    /// Returns R0.
    pub(super) fn exit(&mut self) {
        self.add_raw(EXIT, Register::R0, 0, 0, 0);
    }

    /// Returns the program, with all jumps resolved.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is placed");
            // A jump offset counts from the next instruction.
            let distance = target as isize - (at as isize + 1);
            self.code[at].offset = i16::try_from(distance).expect("programs are much shorter than a jump reaches");
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::Register::*;
    use super::*;

    /// Returns the bytes as in the kernel's documentation and disassemblers, on a little-endian machine.
    fn bytes(code: &[Instruction]) -> Vec<[u8; 8]> {
        let bytes = |i: &Instruction| {
            let ([a, b], [c, d, e, f]) = (i.offset.to_le_bytes(), i.immediate.to_le_bytes());
            [i.code, i.registers, a, b, c, d, e, f]
        };
        code.iter().map(bytes).collect()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn encoding() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.load(Width::Word, R2, R1, 16);
        asm.load(Width::Half, R5, R2, 4);
        asm.load(Width::Byte, R0, R2, -1);
        asm.load_map(R1, 7);
        asm.set(R3, 2);
        asm.copy(R4, R2);
        asm.add(R4, 14);
        asm.jump_if_greater(R4, R3, end);
        asm.jump_if(When::NotEqual, R0, 0xffff_fffe, end);
        asm.jump_if(When::Equal, R0, 1, end);
        asm.jump_if(When::AnyBit, R0, 1, end);
        asm.call(51);
        asm.place(end);
        asm.exit();
        let expected = [
            [0x61, 0x12, 16, 0, 0, 0, 0, 0],
            [0x69, 0x25, 4, 0, 0, 0, 0, 0],
            [0x71, 0x20, 0xff, 0xff, 0, 0, 0, 0],
            [0x18, 0x11, 0, 0, 7, 0, 0, 0],
            [0; 8],
            [0xb7, 0x03, 0, 0, 2, 0, 0, 0],
            [0xbf, 0x24, 0, 0, 0, 0, 0, 0],
            [0x07, 0x04, 0, 0, 14, 0, 0, 0],
            [0x2d, 0x34, 4, 0, 0, 0, 0, 0],
            [0x56, 0x00, 3, 0, 0xfe, 0xff, 0xff, 0xff],
            [0x16, 0x00, 2, 0, 1, 0, 0, 0],
            [0x46, 0x00, 1, 0, 1, 0, 0, 0],
            [0x85, 0x00, 0, 0, 51, 0, 0, 0],
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(&asm.finish()), expected);
    }

    #[test]
    fn jumps_go_back_too() {
        let mut asm = Assembler::default();
        let start = asm.label();
        asm.place(start);
        asm.set(R0, 0);
        asm.jump_if(When::Equal, R0, 0, start);
        assert_eq!(asm.finish()[1].offset, -2);
    }
}
