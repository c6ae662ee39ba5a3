//! An image for containers, from nothing: one layer with the program, which needs no library, its configuration and the licences.
//! (OCI Image Format 1.0: image-layout.md, manifest.md, config.md, layer.md.)

use super::arch::Arch;
use super::content::MILLRACE;
use super::maker::{Maker, word};
use super::{build, tree};
use crate::debian;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of the layer: where they come from, below the tree or the repository, and where they go.
const TREE: [(&str, &str); 2] = [
    ("bin/millrace", "usr/bin/millrace"),
    ("notices/licences-of-crates.gz", "usr/share/doc/millrace/licences-of-crates.gz"),
];
const REPOSITORY: [(&str, &str); 3] = [
    ("packaging/millrace.toml", "etc/millrace/millrace.toml"),
    ("LICENSE-APACHE", "usr/share/doc/millrace/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/millrace/LICENSE-MIT"),
];

/// Options of tar that make equal archives of equal files.
const EQUAL: [&str; 5] = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"];

/// Makes the image for a processor, and returns its archive.
pub fn make(maker: &Maker<'_>, arch: Arch) -> Result<PathBuf, Failure> {
    let built = build::programs(maker, &MILLRACE, arch.musl())?;
    let tree = maker.tree("image");
    tree::make(maker, &MILLRACE, arch, &built, &tree)?;
    let place = maker.place("oci");
    if place.exists() {
        fs::remove_dir_all(&place).map_err(|e| format!("cannot empty {}: {e}", place.display()))?;
    }
    let (layer, layout) = (place.join("layer"), place.join("layout"));
    debian::make(&layout.join("blobs/sha256"))?;
    let files = TREE.map(|(from, to)| (tree.join(from), to)).into_iter();
    for (from, to) in files.chain(REPOSITORY.map(|(from, to)| (maker.context.root.join(from), to))) {
        let to = layer.join(to);
        to.parent().map_or(Ok(()), debian::make)?;
        fs::copy(&from, &to).map_err(|e| format!("cannot copy {}: {e}", from.display()))?;
    }
    // Sockets of guests and capture files, and where volumes with them are put; what the demonstration needs.
    ["run/millrace", "var/lib/millrace", "tmp"]
        .into_iter()
        .try_for_each(|directory| debian::make(&layer.join(directory)))?;
    let packed = place.join("layer.tar");
    archive(maker, &layer, &packed)?;
    let layer =
        blob(maker, &layout, &fs::read(&packed).map_err(|e| e.to_string())?, "application/vnd.oci.image.layer.v1.tar")?;
    let labels = json!({
        "org.opencontainers.image.title": "millrace",
        "org.opencontainers.image.version": maker.version(),
        "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
        "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
    });
    let created = maker.context.command("date").args(&["--utc", "--iso-8601=seconds", "--date"]);
    let created = created.args(&[&format!("@{}", maker.time)]).output()?.trim().replace("+00:00", "Z");
    let config = json!({
        "created": created,
        "architecture": arch.debian(),
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/millrace"],
            "Cmd": ["run", "--config", "/etc/millrace/millrace.toml"],
            // The control socket is there by default, as that of the service.
            "Env": ["PATH=/usr/bin", "RUNTIME_DIRECTORY=/run/millrace"],
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let config = blob(maker, &layout, config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    let mut manifest = blob(maker, &layout, manifest.to_string().as_bytes(), MANIFEST)?;
    let name = format!("localhost/millrace:{}", maker.version());
    // The second is what containerd and those who use it look for.
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name});
    manifest["platform"] = json!({"architecture": arch.debian(), "os": "linux"});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    write(&layout.join("index.json"), index.to_string().as_bytes())?;
    write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let output = maker.place(&format!("millrace-{}-{}.oci.tar", maker.version(), arch.debian()));
    archive(maker, &layout, &output)?;
    Ok(output)
}

/// Adds a blob to the layout, and returns its descriptor.
fn blob(maker: &Maker<'_>, layout: &Path, content: &[u8], kind: &str) -> Result<Value, Failure> {
    let blobs = layout.join("blobs/sha256");
    let new = blobs.join("new");
    write(&new, content)?;
    let said = maker.context.command("sha256sum").args(&[&word(&new)]).output()?;
    let digest = said.split(' ').next().unwrap_or_default();
    fs::rename(&new, blobs.join(digest)).map_err(|e| format!("cannot name a blob: {e}"))?;
    Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len()}))
}

fn archive(maker: &Maker<'_>, directory: &Path, to: &Path) -> Result<(), Failure> {
    let time = format!("--mtime=@{}", maker.time);
    let words = [
        &EQUAL[..],
        &[&time, "--mode=u=rwX,go=rX", "--create", "--file", &word(to), "--directory", &word(directory), "."],
    ];
    maker.context.command("tar").args(&words.concat()).output().map(drop)
}

fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    fs::write(path, content).map_err(|e| format!("cannot write {}: {e}", path.display()).into())
}
