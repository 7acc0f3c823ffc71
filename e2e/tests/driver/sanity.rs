//! csi-sanity, the conformance suite of the CSI project, on the driver's socket.
//!
//! The suite calls what the driver has. `e2e/tools/sanity` does what the kubelet does for inline volumes.

use std::{
    collections::BTreeSet,
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use e2e::{Progress, cluster, repository};
use rustix::{
    mount::{MountFlags, mount},
    process::geteuid,
};
use serde_json::{Value, json};

use crate::support::{Cluster, Driver};

/// Words of specs that csi-sanity leaves out; `docs/reliability.md` has the reasons.
const LEFT_OUT: [&str; 9] = [
    "Controller Server",
    "GroupController",
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodeGetVolumeStats",
    "NodeGetVolumeHealth",
    "NodeGetStorageHealth",
    "NodeExpandVolume",
    "with single node multi writer capability",
];

/// Every other spec of the pinned release. Another release may have other ones, and each of them is to be looked at.
const SPECS: usize = 13;

const INSIDE: &str = "E2E_INSIDE_MOUNT_NAMESPACE";

#[test]
fn the_driver_passes_every_spec_of_csi_sanity_that_is_about_it() {
    let test = "sanity::the_driver_passes_every_spec_of_csi_sanity_that_is_about_it";
    if env::var_os(INSIDE).is_none() {
        return run_inside(test);
    }
    let dir = tempfile::tempdir().unwrap();
    // The machine's file system may be one that takes no mounts.
    mount("kubelet", dir.path(), "tmpfs", MountFlags::empty(), c"").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = runtime.block_on(checked(dir.path()));
    let mut passed = 0;
    let mut wrong = Vec::new();
    for spec in report[0]["SpecReports"].as_array().unwrap() {
        if spec["LeafNodeType"] != "It" {
            continue;
        }
        let name = name(spec);
        match spec["State"].as_str().unwrap() {
            "passed" => passed += 1,
            "skipped" | "pending" if is_left_out(&name) => {}
            state => wrong.push(format!("{state}: {name}: {}", spec["Failure"]["Message"])),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(passed, SPECS);
}

fn is_left_out(spec: &str) -> bool {
    LEFT_OUT.iter().any(|it| spec.contains(it))
}

/// Runs the suite against a driver of its own, and gives its report.
async fn checked(kubelet: &Path) -> Value {
    let mut cluster = Cluster::new(false);
    let driver = Driver::ungated(&mut cluster, kubelet).await;
    let pod = cluster.pod("sanity");
    let file = |name: &str, content: &Value| {
        let path = kubelet.join(name);
        fs::write(&path, content.to_string()).unwrap();
        path.display().to_string()
    };
    let secrets = json!({"NodePublishVolumeSecret": pod.secrets()});
    let mut command = Command::new(cluster::sanity(&Progress::default()).unwrap());
    command
        .arg(format!("-socket={}", driver.socket().display()))
        .arg(format!("-kubelet-dir={}", kubelet.display()))
        .arg(format!("-pod-uid={}", pod.uid))
        .arg(format!("-context={}", file("context", &pod.context())))
        .arg(format!("-secrets={}", file("secrets", &secrets)))
        .arg(format!(
            "-ginkgo.json-report={}",
            kubelet.join("report").display()
        ))
        .arg("-ginkgo.no-color")
        .args(LEFT_OUT.map(|spec| format!("-ginkgo.skip={spec}")));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let report = fs::read(kubelet.join("report"));
    let report = report.unwrap_or_else(|_| panic!("{}: {said}", output.status));
    driver.end().await;
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert!(output.status.success() || !report[0]["SpecReports"].is_null());
    report
}

fn name(spec: &Value) -> String {
    let containers = spec["ContainerHierarchyTexts"]
        .as_array()
        .into_iter()
        .flatten();
    let parts = containers.chain([&spec["LeafNodeText"]]);
    let parts: Vec<&str> = parts.filter_map(Value::as_str).collect();
    parts.join(" ")
}

/// Once more as a process of its own, with mounts of its own: driver and suite see the same, and the machine nothing.
fn run_inside(test: &str) {
    assert!(geteuid().is_root(), "only root can mount: run it as root");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(INSIDE, "1")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // A test that is not found there would succeed as well.
    let is_good = output.status.success() && said.contains("1 passed");
    assert!(is_good, "{said}");
}

#[test]
fn the_documents_give_a_reason_for_each_spec_that_is_left_out() {
    let text = fs::read_to_string(repository().join("docs/reliability.md")).unwrap();
    let (_, table) = text.split_once("<!-- csi-sanity -->\n").unwrap();
    let (table, _) = table.split_once("<!-- csi-sanity: end -->").unwrap();
    let rows = table.lines().filter_map(|line| {
        let (spec, reason) = line.strip_prefix("| `")?.split_once("` | ")?;
        assert!(reason.len() > 20, "{line}");
        Some(spec)
    });
    let documented: BTreeSet<&str> = rows.collect();
    assert_eq!(documented, LEFT_OUT.into());
    let count = format!("{SPECS} specs");
    assert!(text.contains(&count), "docs/reliability.md: {count}");
}
