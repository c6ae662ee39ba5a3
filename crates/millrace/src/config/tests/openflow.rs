//! Tests of `[openflow]` and of bridges with `openflow`.

use super::*;

#[test]
fn openflow_listens_on_loopback_only() {
    let openflow =
        valid("[openflow]\nlisten = ['127.0.0.1:6653', 'unix:of.sock']\ndatapath-id = 5\n").openflow.unwrap();
    let wanted = [ListenAddress::Tcp("127.0.0.1:6653".parse().unwrap()), ListenAddress::Unix("/etc/of.sock".into())];
    assert_eq!((&openflow.listen[..], openflow.datapath_id), (&wanted[..], 5));
    assert!(valid("[openflow]\nlisten = ['[::1]:1']\n").openflow.unwrap().datapath_id > 0);
    for (text, expected) in [
        ("listen = ['192.0.2.1:6653']", "2:11: 192.0.2.1 is not a loopback address; "),
        ("listen = []", "2:10: controllers have no way to the switch; "),
        ("controllers = ['192.0.2.1:6653']", "2:16: `192.0.2.1:6653` is not the address of a controller; "),
        ("controllers = ['tcp:192.0.2.1:0']", "2:16: `tcp:192.0.2.1:0` is not the address of a controller; "),
        ("listen = ['[::1]:1']\nfail-mode = 'open'", "3:13: unknown value `open`"),
        ("listen = ['[::1]:1']\nrelay = true", "3:9: there is no aggregation table to relay flows for; "),
        ("datapath-id = 0", "2:15: `datapath-id` cannot be 0; give 1 or more"),
        ("", "1:1: controllers have no way to the switch; "),
    ] {
        let found = problems(&format!("[openflow]\n{text}\n"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{text}: {found:#?}");
    }
}

#[test]
fn one_bridge_goes_by_flows() {
    const PORTS: &str = "port = [{name='a', driver='sink'}, {name='b', driver='sink'}, {name='c', driver='sink'},
                                 {name='d', driver='sink'}]\n";
    let one = "bridge = [{name='x', ports=['a', 'b'], openflow=true}, {name='y', ports=['c', 'd']}]\n";
    let channel = "[openflow]\ncontrollers = ['tcp:192.0.2.1:6653', 'unix:c.sock']\nfail-mode = 'secure'";
    let config = valid(&format!("{PORTS}{one}{channel}"));
    let flows = |bridge: &BridgeSpec| bridge.flows;
    assert_eq!(config.spec.bridges.iter().map(flows).collect::<Vec<_>>(), [Some(FailMode::Secure), None]);
    let openflow = config.openflow.unwrap();
    let wanted = [ListenAddress::Tcp("192.0.2.1:6653".parse().unwrap()), ListenAddress::Unix("/etc/c.sock".into())];
    assert_eq!(openflow.controllers, wanted);
    assert!(openflow.listen.is_empty());
    let found = problems(&format!("{PORTS}{one}"));
    assert!(found[0].contains("nobody can set this bridge's flows"), "{found:#?}");
    let two = one.replace("'d']", "'d'], openflow=true");
    let found = problems(&format!("{PORTS}{two}{channel}"));
    assert!(found[0].contains("bridge `y` cannot have `openflow` as well"), "{found:#?}");
}
