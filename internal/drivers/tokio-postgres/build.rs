//! Tells the program the version of its driver, as the lock file has it.

fn main() {
    let lock = std::fs::read_to_string("Cargo.lock").expect("Cargo.lock");
    let entry = lock.split("[[package]]").find(|p| p.contains(DRIVER)).expect("the driver in Cargo.lock");
    let version = entry.split("version = \"").nth(1).and_then(|v| v.split('"').next()).expect("its version");
    println!("cargo:rustc-env=DRIVER_VERSION={version}");
}

const DRIVER: &str = "name = \"tokio-postgres\"\n";
