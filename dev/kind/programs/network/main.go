// Command podnetwork is the least that kind's default CNI does: it writes a
// ptp/host-local conflist for its own node's pod CIDR and keeps one host route per other
// node's pod CIDR. It talks plain HTTPS to the API server (no client-go).
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
)

const sa = "/var/run/secrets/kubernetes.io/serviceaccount/"

type nodeList struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct{ PodCIDR string }
		Status   struct {
			Addresses []struct{ Type, Address string }
		}
	}
}

func list(c *http.Client, base string) (*nodeList, error) {
	token, err := os.ReadFile(sa + "token")
	if err != nil {
		return nil, err
	}
	req, _ := http.NewRequest("GET", base+"/api/v1/nodes", nil)
	req.Header.Set("Authorization", "Bearer "+string(token))
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return nil, fmt.Errorf("list nodes: %s", resp.Status)
	}
	var l nodeList
	return &l, json.NewDecoder(resp.Body).Decode(&l)
}

// serviceReady waits until this node's kube-proxy routes the API server's service address, so that no pod
// starts on a node where its first connection to 10.96.0.1 would leave un-NATed and hang (client-go dials for 30 s).
func serviceReady(pool *x509.CertPool) {
	vip := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")) + "/version"
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		c := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
		resp, err := c.Get(vip)
		if err == nil {
			resp.Body.Close()
			return
		}
	}
	log.Print("service address still unreachable, going on")
}

func conflist(cidr string) []byte {
	return []byte(fmt.Sprintf(`{"cniVersion":"0.3.1","name":"kindnet","plugins":[
 {"type":"ptp","ipMasq":false,"mtu":1500,"ipam":{"type":"host-local","dataDir":"/run/cni-ipam-state",
  "routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":%q}]]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
`, cidr))
}

func main() {
	hostIP := os.Getenv("HOST_IP")
	ca, err := os.ReadFile(sa + "ca.crt")
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	base := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	if e := os.Getenv("CONTROL_PLANE_ENDPOINT"); e != "" {
		base = "https://" + e
	}
	wrote := ""
	for {
		wait := 5 * time.Second
		l, err := list(c, base)
		if err != nil {
			log.Print(err)
			time.Sleep(time.Second)
			continue
		}
		for _, n := range l.Items {
			ip := ""
			for _, a := range n.Status.Addresses {
				if a.Type == "InternalIP" {
					ip = a.Address
				}
			}
			if ip == "" || n.Spec.PodCIDR == "" {
				wait = 500 * time.Millisecond
				continue
			}
			if ip == hostIP {
				if wrote != n.Spec.PodCIDR {
					serviceReady(pool)
					tmp := "/etc/cni/net.d/.10-kindnet.conflist"
					if err := os.WriteFile(tmp, conflist(n.Spec.PodCIDR), 0o644); err != nil {
						log.Fatal(err)
					}
					if err := os.Rename(tmp, filepath.Join(filepath.Dir(tmp), "10-kindnet.conflist")); err != nil {
						log.Fatal(err)
					}
					wrote = n.Spec.PodCIDR
					log.Printf("own pod CIDR %s", wrote)
				}
				continue
			}
			_, dst, err := net.ParseCIDR(n.Spec.PodCIDR)
			if err != nil {
				log.Print(err)
				continue
			}
			if err := netlink.RouteReplace(&netlink.Route{Dst: dst, Gw: net.ParseIP(ip)}); err != nil {
				log.Printf("route %s via %s: %v", dst, ip, err)
			}
		}
		time.Sleep(wait)
	}
}
