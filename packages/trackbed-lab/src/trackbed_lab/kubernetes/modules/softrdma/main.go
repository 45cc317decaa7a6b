// An NRI plugin that gives the ports of pods their soft-RoCE devices again. A driver that moves a port into a pod expects
// its RDMA device to follow or to stay, but the kernel takes a soft-RoCE device away with its interface.
//
// containerd calls the plugins of one event one after the other, by index, and no two events at once. With the highest
// index, this plugin runs when the driver has moved the ports, and before any other pod's ports move: the devices that it
// makes get the numbers (uverbs) of those that were taken away, which the driver has told containerd.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

const (
	tries = 100
	pause = 100 * time.Millisecond // between tries: the former device goes a moment after its interface
)

// plugin knows the name of the device of each port, by the name of its interface.
type plugin map[string]string

func (names plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	names.learn()
	for _, namespace := range pod.GetLinux().GetNamespaces() {
		if namespace.GetType() == "network" && namespace.GetPath() != "" {
			return names.makeDevices(namespace.GetPath())
		}
	}
	return nil
}

func (names plugin) RemovePodSandbox(context.Context, *api.PodSandbox) error {
	names.learn()
	return nil
}

// learn reads the names of the devices of ports that are at home.
func (names plugin) learn() {
	paths, _ := filepath.Glob("/sys/class/infiniband/*/ports/1/gid_attrs/ndevs/0")
	for _, path := range paths {
		if port, err := os.ReadFile(path); err == nil {
			names[strings.TrimSpace(string(port))] = strings.Split(path, "/")[4]
		}
	}
}

// makeDevices makes a device for each PCI port in a network namespace.
func (names plugin) makeDevices(path string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return err
	}
	defer own.Close()
	pods, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer pods.Close()
	if err := netns.Set(pods); err != nil {
		return err
	}
	defer netns.Set(own)
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		name, known := names[link.Attrs().Name]
		if known && link.Attrs().ParentDevBus == "pci" {
			if err := makeDevice(name, link.Attrs().Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func makeDevice(name, port string) error {
	var err error
	for try := 0; try < tries; try++ {
		if err = netlink.RdmaLinkAdd(name, "rxe", port); err == nil {
			log.Printf("%s of %s", name, port)
			return nil
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("%s of %s: %w", name, port, err)
}

func main() {
	names := plugin{}
	names.learn()
	runner, err := stub.New(names, stub.WithPluginName("soft-rdma"), stub.WithPluginIdx("99"))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(runner.Run(context.Background()))
}
