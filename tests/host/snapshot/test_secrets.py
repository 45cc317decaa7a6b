from __future__ import annotations

import json
import time
import tomllib

import pytest
import yaml

from trackbed.host.snapshot.secrets import is_forbidden, mask_secrets

WG = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="

SECRETS = {
    "netplan: password of a wireless network": (
        "/etc/netplan/01.yaml",
        'wifis:\n  wlan0:\n    access-points:\n      "site":\n        password: "hunter2 and more"\n',
    ),
    "netplan: password without quotes, with blanks": ("/etc/netplan/01.yaml", "          password: my hunter2\n"),
    "netplan: 802.1X": (
        "/etc/netplan/01.yaml",
        "auth:\n  key-management: eap\n  password: hunter2\n  client-key-password: also-hunter2\n",
    ),
    "netplan: auth on one line": ("/etc/netplan/01.yaml", "auth: {key-management: psk, password: hunter2}\n"),
    "netplan: WireGuard": ("/etc/netplan/01.yaml", f"  keys:\n    private: {WG}\n"),
    "cloud-init: a user's password": ("/etc/cloud/cloud.cfg", "users:\n- name: me\n  plain_text_passwd: hunter2\n"),
    "cloud-init: a hash": ("/etc/cloud/cloud.cfg", "passwd: $6$hunter2$abc\n"),
    "cloud-init: chpasswd.list": ("/etc/cloud/cloud.cfg", "chpasswd:\n  list: |\n    root:hunter2\n    me:hunter2\n"),
    "cloud-init: chpasswd.users": (
        "/etc/cloud/cloud.cfg",
        "chpasswd:\n  users:\n  - {name: me, password: hunter2, type: text}\n",
    ),
    "cloud-init: a password in a block": ("/etc/cloud/cloud.cfg", "password: |\n  hunter2\n\n  hunter2\nssh: true\n"),
    "cloud-init: a list of secrets": ("/etc/cloud/cloud.cfg", "tokens:\n- hunter2\n- hunter2\nssh: true\n"),
    "a byte zero": ("/etc/some.conf", "password=hunter2\0\n"),
    "cloud-init: MAAS": ("/etc/cloud/cloud.cfg.d/90.cfg", "MAAS: {consumer_key: hunter2, token_secret: hunter2}\n"),
    "NetworkManager: WPA": ("/run/nm.conf", "[wifi-security]\nkey-mgmt=wpa-psk\npsk=my hunter2\n"),
    "NetworkManager: WEP": ("/run/nm.conf", "wep-key0=hunter2\n"),
    "NetworkManager: 802.1X": ("/run/nm.conf", "[802-1x]\nprivate-key-password=hunter2\n"),
    "NetworkManager: VPN": ("/run/nm.conf", "[vpn-secrets]\npassword=hunter2\n"),
    "NetworkManager: MACsec": ("/run/nm.conf", "mka-cak=hunter2\n"),
    "NetworkManager: modem": ("/run/nm.conf", "[gsm]\npin=hunter2\n"),
    "kernel: iSCSI": ("/proc/cmdline", "root=/dev/sda rd.iscsi.password=hunter2 quiet"),
    "kernel: iSCSI in netroot": ("/proc/cmdline", "netroot=iscsi:me:hunter2@10.0.0.1::3260::iqn quiet"),
    "kernel: CIFS": ("/proc/cmdline", "cifsroot=//a/b,user=me,pass=hunter2 quiet"),
    "kernel: credentials of systemd": ("/proc/cmdline", "systemd.set_credential=passwd.hashed:hunter2 quiet"),
    "kernel: a URL with a token": ("/proc/cmdline", "inst.ks=https://site/ks?token=hunter2&n=1 quiet"),
    "containerd: a registry": (
        "/etc/containerd/config.toml",
        '[plugins."cri".registry.configs."r.example".auth]\nusername = "me"\npassword = "hunter2"\n',
    ),
    "containerd: user and password as one": ("/etc/containerd/config.toml", 'auth = "aHVudGVyMgo-hunter2"\n'),
    "containerd: an identity token": ("/etc/containerd/config.toml", "identitytoken = 'hunter2'\n"),
    "containerd: a header": ("/etc/containerd/certs.d/r/hosts.toml", 'authorization = ["Basic hunter2"]\n'),
    "docker: JSON": ("/etc/docker/config.json", '{"auths": {"r.example": {"auth": "hunter2", "email": "a@b"}}}'),
    "JSON with a quote in it": ("/etc/some.json", '{"password": "a\\"hunter2", "n": 1}'),
    "environment: token": ("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--v=2\nHF_TOKEN=hunter2\n"),
    "environment: exported, in quotes": ("/etc/environment", "export NGC_API_KEY='hunter2 too'\n"),
    "environment: of the cloud": ("/etc/environment", "AWS_SECRET_ACCESS_KEY=hunter2\nAWS_ACCESS_KEY_ID=hunter2\n"),
    "environment: proxy": ("/etc/environment", "https_proxy=http://me:hunter2@proxy:3128\n"),
    "systemd: Environment": ("/etc/systemd/system/a.service", 'Environment="A=b" "DB_PASSWORD=my hunter2" "C=d"\n'),
    "systemd: credentials": ("/etc/systemd/system/a.service", "SetCredential=a:hunter2\n"),
    "networkd: WireGuard": ("/etc/systemd/network/wg.netdev", f"[WireGuard]\nPrivateKey={WG}\n"),
    "kubelet: bootstrap token": ("/var/lib/kubelet/config.yaml", "token: hunter2\n"),
    "a program's option": ("", "/usr/bin/kubelet --token hunter2 --v=2\n"),
    "a program's option with =": ("", "/usr/bin/kubelet --token=hunter2 --v=2\n"),
    "a quote that is not closed": ("/etc/a.yaml", 'password: "hunter2\n'),
    "kernel: anaconda's ssh": ("/proc/cmdline", "inst.sshpw=hunter2 quiet"),
    "kernel: root's password": ("/proc/cmdline", "rootpw=hunter2 quiet"),
    "kernel: a key for LUKS": ("/proc/cmdline", "rd.luks.key=/hunter2:UUID=1-2 quiet"),
    "kernel: dracut's CIFS": ("/proc/cmdline", "cifsuser=me cifspass=hunter2 quiet"),
    "kernel: preseed's wireless": ("/proc/cmdline", "netcfg/wireless_wpa=hunter2 quiet"),
    "kernel: preseed's root": ("/proc/cmdline", "passwd/root-password=hunter2 quiet"),
    "containerd: Digest": ("/etc/containerd/certs.d/r/hosts.toml", 'Authorization = "Digest hunter2"\n'),
    "containerd: Digest with its fields": (
        "/etc/containerd/certs.d/r/hosts.toml",
        'Authorization = \'Digest username="me", response="hunter2"\'\n',
    ),
    "containerd: any scheme": (
        "/etc/containerd/certs.d/r/hosts.toml",
        'authorization = ["Negotiate hunter2"]\n',
    ),
    "a header of its own": ("/etc/a.yaml", "Proxy-Authorization: Negotiate hunter2\n"),
    "a cookie": ("/etc/a.conf", "Set-Cookie: session=hunter2; Path=/\n"),
    "TOML: a string of lines": ("/etc/a.toml", 'password = """\nhunter2\n  hunter2"""\nn = 1\n'),
    "TOML: a literal of lines": ("/etc/a.toml", "password = '''hunter2\nhunter2\n'''\nn = 1\n"),
    "TOML: a list of lines": ("/etc/a.toml", 'tokens = [\n"hunter2",\n"hunter2"\n]\nn = 1\n'),
    "JSON: a list of lines": ("/etc/a.json", '{\n "tokens": [\n  "hunter2",\n  "hunter2"\n ],\n "n": 1\n}\n'),
    "JSON: an object of lines": ("/etc/a.json", '{\n "credentials": {\n  "key": "hunter2"\n },\n "n": 1\n}\n'),
    "YAML: a quoted scalar of lines": ("/etc/a.yaml", 'password: "my\n  hunter2"\nb: 1\n'),
    "YAML: a quoted scalar without an indent": ("/etc/a.yaml", 'password: "my\nhunter2"\nb: 1\n'),
    "YAML: a plain scalar of lines": ("/etc/a.yaml", "password: my\n  hunter2\nb: 1\n"),
    "a line that goes on": ("/etc/default/a", "PASSWORD=my\\\nhunter2\nB=1\n"),
    "a URL whose password has an @": ("/etc/environment", "https_proxy=http://me:my@hunter2@proxy:3128\n"),
    "a URL whose user has an @": ("/etc/environment", "https_proxy=http://me@site:hunter2@proxy:3128\n"),
    "a URL whose password has a /": ("/etc/environment", "https_proxy=http://me:my/hunter2@proxy:3128\n"),
    "a URL whose password has a quote": ("/etc/environment", 'https_proxy="http://me:my\'hunter2@proxy:3128"\n'),
    "a URL whose user is a token": ("/etc/environment", "REPO=https://hunter2@git.example/a.git\n"),
    "a URL without a user": ("/etc/environment", "CACHE=redis://:hunter2@cache:6379/0\n"),
    "a proxy without a scheme": ("/etc/environment", "http_proxy=me:hunter2@proxy:3128\n"),
    "iSCSI whose password has an @": ("/proc/cmdline", "netroot=iscsi:me:my@hunter2@10.0.0.1::3260::iqn quiet"),
    "ifupdown: WPA": ("/etc/network/interfaces", "iface wlan0 inet dhcp\n    wpa-psk hunter2\n"),
    "ifupdown: WEP": ("/etc/network/interfaces", "    wireless-key1 s:hunter2\n"),
    "ifcfg: WEP": ("/etc/sysconfig/network-scripts/ifcfg-wlan0", "KEY1=s:hunter2\n"),
    "ldap: a bind": ("/etc/nslcd.conf", "bindpw hunter2\n"),
    "sssd: a bind": ("/etc/sssd.conf", "ldap_default_authtok = hunter2\n"),
    "FRR: a neighbour": ("/etc/frr/frr.conf", " neighbor 10.0.0.1 password hunter2\n"),
    "FRR: OSPF": ("/etc/frr/frr.conf", " ip ospf message-digest-key 1 md5 hunter2\n"),
    "SNMP": ("/etc/snmp/snmpd.conf", "rocommunity hunter2 default\n"),
    "netrc": ("/etc/netrc", "machine a.example login me password hunter2\n"),
    "a user and a password as an option": (
        "/etc/systemd/system/a.service",
        "ExecStart=/usr/bin/curl -u me:hunter2 x\n",
    ),
    "a password hash": ("/etc/a.conf", "root:$6$hunter2$hunter2:19000:0\n"),
    "a JSON web token": ("/etc/rc.local", "report eyJhbGciOiJIUzI1NiJ9.eyJodW50ZXIyIjoxfQ.hunter2\n"),
    "kubeadm: a certificate's key": ("/etc/a.yaml", "certificateKey: hunter2\n"),
}


@pytest.mark.parametrize(("path", "text"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_blanked(path: str, text: str) -> None:
    left = mask_secrets(path, text.encode())
    assert b"***" in left
    assert b"hunter2" not in left
    assert WG.encode() not in left
    assert left.count(b"\n") == text.count("\n")


KEPT = {
    "a time to live": ("/var/lib/kubelet/config.yaml", "tokenCacheTTL: 5s\n"),
    "times": ("/a.yaml", "tokenExpirationSeconds: 3600\ncacheTokenTTL: 2m0s\nsecretSyncInterval: 1h30m\n"),
    "kubelet's configuration": (
        "/var/lib/kubelet/config.yaml",
        "authentication:\n  webhook: {cacheTTL: 0s, enabled: true}\nauthorization:\n  mode: Webhook\nmaxPods: 9\n",
    ),
    "a truth value": ("/a.yaml", "authenticationTokenWebhook: true\nautomountServiceAccountToken: no\n"),
    "the place of a file": ("", "kubelet --token-auth-file=/etc/kubernetes/tokens.csv --v=2\n"),
    "how keys are managed": ("/a.conf", "key-mgmt=wpa-psk\n"),
    "kernel arguments": ("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=1-2 iommu=pt intel_iommu=on quiet"),
    "addresses": ("/a.yaml", "addresses: ['fd00::1/64', 10.0.0.1/31]\nmacaddress: b8:3f:d2:00:00:01\n"),
    "a limit that PAM sets": ("/etc/security/limits.conf", "* hard memlock unlimited\n"),
    "bytes": ("/sys/config", "password=\0"),
    "a URL with a port": ("/a.conf", "a=http://proxy:3128/a?mail=me@site b=https://site/a@v2\n"),
    "syncookies": ("/etc/sysctl.conf", "net.ipv4.tcp_syncookies = 1\n"),
    "a working folder": ("/a", "PWD=/root OLDPWD=/tmp\n"),
    "a taint": ("/a.yaml", "- key: nvidia.com/gpu\n  effect: NoSchedule\n"),
    "PAM": ("/etc/pam.d/login", "password required pam_unix.so sha512\n"),
    "a user by numbers": ("/a.service", "ExecStart=/usr/bin/podman run --user 1000:1000 a\n"),
    "authorization of a kubelet": (
        "/a.yaml",
        "authorization:\n  mode: Webhook\n  webhook:\n    cacheAuthorizedTTL: 5s\n",
    ),
    "an image by its digest": (
        "/a.yaml",
        "image: r.example/a@sha256:0011223344556677889900112233445566778899001122334455\n",
    ),
}


@pytest.mark.parametrize(("path", "text"), KEPT.values(), ids=KEPT)
def test_what_is_no_secret_stays(path: str, text: str) -> None:
    assert mask_secrets(path, text.encode()) == text.encode()


def test_what_comes_after_a_secret_stays() -> None:
    assert mask_secrets("/proc/cmdline", b"password=hunter2 iommu=pt") == b"password=*** iommu=pt"
    assert mask_secrets("/a.yaml", b"tokens:\n- hunter2\nmtu: 9000\n") == b"tokens:\n- blanked ***\nmtu: 9000\n"


def test_json_stays_json() -> None:
    document = {"password": "hunter2", "nested": {"auth": "hunter2", "n": 1, "pin": 1234}, "tokens": ["hunter2"]}
    left = {"password": "***", "nested": {"auth": "***", "n": 1, "pin": "***"}, "tokens": "***"}
    assert json.loads(mask_secrets("/a.json", json.dumps(document).encode())) == left
    assert json.loads(mask_secrets("/a.json", json.dumps({"auth": "a", "pin": 1, "n": 1}, indent=2).encode())) == {
        "auth": "***",
        "pin": "***",
        "n": 1,
    }


def test_toml_stays_toml() -> None:
    text = b'auth = "hunter2"\nidentitytoken = \'hunter2\'\nauthorization = ["Basic hunter2"]\nn = 1\n'
    left = {"auth": "***", "identitytoken": "***", "authorization": ["Basic ***"], "n": 1}
    assert tomllib.loads(mask_secrets("/a.toml", text).decode()) == left


@pytest.mark.parametrize(
    "text",
    [
        "a: {auth: {password: hunter2, n: 1}}\n",
        "password: my hunter2\n",
        "tokens:\n- hunter2\n- {a: hunter2}\n",
        "tokens:\n  - hunter2\n  - a: hunter2\n    b: hunter2\n",
        "credentials:\n  user: me\n  key: hunter2\n  more:\n  - hunter2\n",
        "passwords:\n  hunter2: [1, 2]\n",
    ],
)
def test_yaml_stays_yaml(text: str) -> None:
    assert yaml.safe_load(mask_secrets("/a.yaml", f"{text}b: 2\n".encode()))["b"] == 2


@pytest.mark.parametrize(
    "text",
    [
        *(b"a" * 500_000 + b" token", b"-" * 500_000 + b"token", b"token" * 100_000, b"://" * 200_000),
        *(b"http://a:" * 50_000 + b"@", b"@" + b"http://a:" * 50_000, b"proxy=a:" * 50_000 + b" @", b"iscsi:" * 80_000),
        *(
            b"token=[" * 70_000,
            b"token='" * 70_000,
            b"authorization: " * 30_000,
            b"neighbor " * 50_000,
            b"$6$" * 150_000,
        ),
        *(b"eyJ" * 150_000, b"-u " * 150_000, b'"""' * 150_000 + b"token"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_long_lines_take_no_long_time(text: bytes) -> None:
    before = time.process_time()
    mask_secrets("/a.txt", text)
    assert time.process_time() - before < 10


def test_a_key_for_pgp_is_blanked() -> None:
    block = b"-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2\n-----END PGP PRIVATE KEY BLOCK-----\n"
    assert mask_secrets("/etc/a", block + b"mtu: 9000\n") == b"***\nmtu: 9000\n"


OF_MANY_LINES = {
    "a string": (b'password = """\nhunter2\n  hunter2"""\nn = 1\n', {"password": "***\n***\n***", "n": 1}),
    "a literal": (b"password = '''hunter2\nhunter2\n'''\nn = 1\n", {"password": "***\n***\n***", "n": 1}),
    "a list": (b'tokens = [\n  "hunter2", # ]\n  ["hunter2"]\n]\nn = 1\n', {"tokens": ["***"], "n": 1}),
    "a string on one line": (b'password = """my hunter2"""\nn = 1\n', {"password": "***", "n": 1}),
}


@pytest.mark.parametrize(("text", "document"), OF_MANY_LINES.values(), ids=OF_MANY_LINES)
def test_toml_of_many_lines_stays_toml(text: bytes, document: dict[str, object]) -> None:
    assert tomllib.loads(mask_secrets("/a.toml", text).decode()) == document


def test_json_of_many_lines_stays_json() -> None:
    document = {
        "n": 1,
        "tokens": ["hunter2", "a[hunter2"],
        "nested": {"credentials": {"a": ["hunter2"], "b": "hunter2"}},
    }
    left = {"n": 1, "tokens": ["***"], "nested": {"credentials": {"***": "***"}}}
    assert json.loads(mask_secrets("/a.json", json.dumps(document, indent=1).encode())) == left


def test_what_comes_after_a_value_of_many_lines_stays() -> None:
    text = b"- password: my\n    hunter2\n  mtu: 9000\n- mtu: 1500\n"
    assert mask_secrets("/a.yaml", text) == b'- password: "***"\n    ***\n  mtu: 9000\n- mtu: 1500\n'


@pytest.mark.parametrize(
    "path",
    [
        "/run/NetworkManager/system-connections/a.nmconnection",
        "/etc/NetworkManager/system-connections/a.nmconnection",
        "/etc/kubernetes/kubelet.conf",
        "/etc/kubernetes/tmp/backup/admin.conf",
        "/etc/kubernetes/kubelet.conf.d/client.key",
        "/var/lib/kubelet/pki/kubelet.key",
        "/etc/wireguard/wg0.conf",
    ],
)
def test_files_that_are_nothing_but_secrets_stay_where_they_are(path: str) -> None:
    assert is_forbidden(path)


def test_drop_ins_of_kubelet_leave_without_their_secrets() -> None:
    path = "/etc/kubernetes/kubelet.conf.d/90-trackbed.conf"
    assert not is_forbidden(path)
    masked = mask_secrets(path, b"token: hunter2\ncpuManagerPolicy: static\n")
    assert b"hunter2" not in masked
    assert masked.endswith(b"\ncpuManagerPolicy: static\n")
