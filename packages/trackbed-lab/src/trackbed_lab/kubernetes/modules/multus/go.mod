module trackbed.dev/lab/multus

go 1.25.0

tool (
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/install_multus
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/passthru-cni
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/thin_entrypoint
)

require (
	github.com/containernetworking/cni v1.3.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/sys v0.39.0 // indirect
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4 v4.3.0 // indirect
)
