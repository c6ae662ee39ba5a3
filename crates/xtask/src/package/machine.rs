//! A Debian of this machine's release, booted with systemd in an emulator, in which the package is installed, used and purged.

use super::arch::Arch;
use super::deb;
use super::libraries::Libraries;
use super::maker::{Maker, word};
use crate::command::Context;
use crate::debian::{Debian, make, mirror, release};
use crate::failure::Failure;
use crate::tools::{Need, prepare};
use std::fs;
use std::path::{Path, PathBuf};

/// Packages of the machine, besides those that are in any Debian.
const PACKAGES: &str = "systemd-sysv,udev,dbus,iproute2,iputils-ping,procps";

/// Drivers of DPDK, whose packages have the number of its interface at their end.
const DRIVERS: [&str; 2] = ["librte-net-af-packet", "librte-mempool-ring"];

/// Modules of the kernel for ports.
const MODULES: [&str; 2] = ["tun", "veth"];

/// Seconds that the machine may take. It takes about three minutes, and much more on a busy machine.
const LIMIT: &str = "3600";

/// The line by which the machine says that all went well.
const PASSED: &str = "@passed";

/// Boots the machine, and fails if anything in it does.
pub fn test(maker: &Maker<'_>) -> Result<(), Failure> {
    let context = maker.context;
    prepare(context, &[Need::Debian])?;
    let place = maker.place("machine");
    make(&place)?;
    let suite = release()?;
    let arch = Arch::of_this_machine()?;
    let newer = Maker { context, time: maker.time.clone(), revision: format!("{}.1", maker.revision) };
    let libraries = Libraries::of(maker, arch)?;
    let packages = [
        deb::millrace(maker, &libraries)?,
        deb::millrace(&newer, &libraries)?,
        deb::plugins(maker, &libraries)?,
        deb::tools(maker, &libraries)?,
    ];
    let debian = Debian::of_this_processor(context, &suite, &place)?;
    let kernel = debian.kernel(&format!("linux-image-cloud-{}", arch.debian()))?;
    let (root, list) = (place.join("root.tar"), place.join("root.list"));
    let wanted = format!("{suite} {PACKAGES},{}", dpdk_packages(context, &packages[2])?);
    if fs::read_to_string(&list).ok().is_none_or(|made| made != wanted) {
        let (suite, include) = wanted.split_once(' ').expect("there is one");
        let bootstrap =
            ["--quiet", "--variant=essential", "--include", include, suite, &word(&root), &mirror(context)?];
        context.command("mmdebstrap").args(&bootstrap).named("a minimal Debian").run()?;
        fs::write(&list, &wanted).map_err(|e| format!("cannot write {}: {e}", list.display()))?;
    }
    let initrd = pack(context, &place, &root, &kernel, &packages)?;
    boot(context, &kernel, &initrd)
}

/// Returns the libraries of DPDK that a package depends on, and the drivers for them.
fn dpdk_packages(context: &Context, package: &Path) -> Result<String, Failure> {
    let depends = context.command("dpkg-deb").args(&["--field", &word(package), "Depends"]).output()?;
    let names = depends.split(',').filter_map(|one| one.split_whitespace().next());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("librte-")).map(str::to_owned).collect();
    let number = names.iter().find_map(|name| name.strip_prefix("librte-eal")).unwrap_or_default().to_owned();
    names.extend(DRIVERS.map(|driver| format!("{driver}{number}")));
    Ok(names.join(","))
}

/// Packs what the machine begins with: the archive of its files, and a program that unpacks it. A disk would take drivers.
fn pack(
    context: &Context,
    place: &Path,
    root: &Path,
    kernel: &Path,
    packages: &[PathBuf; 4],
) -> Result<PathBuf, Failure> {
    let tree = place.join("initrd");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|e| format!("cannot empty {}: {e}", tree.display()))?;
    }
    let test = tree.join("test");
    make(&test)?;
    let copy = |from: &Path, to: PathBuf| {
        fs::copy(from, &to).map(drop).map_err(|e| Failure::from(format!("cannot copy {}: {e}", from.display())))
    };
    copy(root, tree.join("root.tar"))?;
    copy(Path::new("/bin/busybox"), tree.join("busybox"))?;
    for (package, name) in packages.iter().zip(["first.deb", "second.deb", "dpdk.deb", "tools.deb"]) {
        copy(package, test.join(name))?;
    }
    for module in MODULES {
        let found = context.command("find").args(&[&word(kernel), "-name", &format!("{module}.ko*")]).output()?;
        let path = Path::new(found.lines().next().ok_or_else(|| format!("the kernel has no module {module}"))?);
        let to = test.join(path.file_name().unwrap_or_default());
        copy(path, to.clone())?;
        if to.extension().is_some_and(|end| end == "xz") {
            context.command("xz").args(&["--decompress", &word(&to)]).output()?;
        }
    }
    let texts = [
        ("init", include_str!("machine/init.sh")),
        ("test/check.sh", include_str!("machine/check.sh")),
        ("test/check.service", include_str!("machine/check.service")),
    ];
    for (name, text) in texts {
        let path = tree.join(name);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        let written = fs::write(&path, text).and_then(|()| fs::set_permissions(&path, mode));
        written.map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    let initrd = place.join("initrd.cpio");
    let pack = format!("find . | cpio --create --format=newc --owner=0:0 --quiet >'{}'", initrd.display());
    context.command("sh").args(&["-c", &pack]).inside(&tree).output()?;
    Ok(initrd)
}

fn boot(context: &Context, kernel: &Path, initrd: &Path) -> Result<(), Failure> {
    let version = kernel.file_name().unwrap_or_default().to_string_lossy().replace("linux-image-", "");
    let image = word(&kernel.join("boot").join(format!("vmlinuz-{version}")));
    let (program, machine, console) = match Arch::of_this_machine()? {
        // Some QEMUs leave wrong flags after cmpxchg16b, and Linux crashes; it boots without this instruction.
        Arch::Amd64 => ("qemu-system-x86_64", ["q35", "max,-cx16"], "ttyS0"),
        Arch::Arm64 => ("qemu-system-aarch64", ["virt", "max,pauth-impdef=on"], "ttyAMA0"),
    };
    let run = context.command("timeout").args(&["--foreground", "--kill-after=10", LIMIT, program]);
    let run = run.args(&["-machine", machine[0], "-cpu", machine[1], "-accel", "tcg", "-smp", "2", "-m", "1536M"]);
    let run = run.args(&["-nodefaults", "-no-reboot", "-display", "none", "-serial", "file:/dev/stdout"]);
    let run = run.args(&["-kernel", &image, "-initrd", &word(initrd)]);
    // An emulated time stamp counter is calibrated wrongly when the host is busy.
    let append = format!(
        "console={console} quiet panic=-1 mitigations=off clocksource=hpet no_timer_check systemd.show_status=no"
    );
    let mut passed = false;
    run.args(&["-append", &append]).named("the package in a machine").each_line(|line| {
        let line = line.trim_end();
        println!("{line}");
        passed |= line == PASSED;
    })?;
    if passed {
        Ok(())
    } else {
        Err("the test of the package in a virtual machine failed; its last lines say why".into())
    }
}
