//! Packages of programs: which programs, and of which crates.

/// A package of programs. The lists of its files are in the manifest of its first crate.
pub struct Content {
    pub package: &'static str,
    pub crates: &'static [&'static str],
    pub programs: &'static [Program],
}

/// A program, by its name in the workspace and in the package.
pub struct Program {
    pub built: &'static str,
    pub installed: &'static str,
    pub asked: Asked,
}

/// How a program is asked for its completions and manual pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    ByCommands,
    /// It has no commands.
    ByOptions,
}

/// The switch.
pub const MILLRACE: Content = Content {
    package: "millrace",
    crates: &["millrace"],
    programs: &[Program { built: "millrace", installed: "millrace", asked: Asked::ByCommands }],
};

/// Measurements and network functions. The testbed looks for the functions beside it.
pub const TOOLS: Content = Content {
    package: "millrace-tools",
    crates: &["millrace-testbed", "millrace-nf"],
    programs: &[
        // Other packages may have a testbed, too.
        Program { built: "testbed", installed: "millrace-testbed", asked: Asked::ByCommands },
        Program { built: "nf-forward", installed: "nf-forward", asked: Asked::ByOptions },
        Program { built: "nf-macswap", installed: "nf-macswap", asked: Asked::ByOptions },
        Program { built: "nf-proxy", installed: "nf-proxy", asked: Asked::ByOptions },
        Program { built: "nf-responder", installed: "nf-responder", asked: Asked::ByOptions },
        Program { built: "nf-router", installed: "nf-router", asked: Asked::ByOptions },
    ],
};

/// The package of the plugins for DPDK, and the crate with the list of its files.
pub const PLUGINS: &str = "millrace-dpdk";

impl Asked {
    /// Returns the word that asks for the completions of a shell, which follows it.
    pub fn completions(self) -> &'static str {
        match self {
            Asked::ByCommands => "completions",
            Asked::ByOptions => "--completions",
        }
    }

    /// Returns the word that asks for manual pages in a directory, which follows it.
    pub fn manual(self) -> &'static str {
        match self {
            Asked::ByCommands => "manual",
            Asked::ByOptions => "--manual",
        }
    }
}
