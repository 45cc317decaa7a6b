// Modules whose CRDs the tests load into a real API server; nothing is built from them.
module trackbed.dev/tests/crds

go 1.24.3

require (
	github.com/cert-manager/cert-manager v1.18.2
	github.com/openshift/api v0.0.0-20240912201240-0a8800162826
	github.com/operator-framework/api v0.32.0
)
