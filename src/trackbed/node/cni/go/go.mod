module trackbed.dev/cni

go 1.24
