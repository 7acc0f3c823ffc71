//! The pods that run in the cluster from the start: the cluster's DNS.

use super::config::net;
use crate::images::Image;

/// CoreDNS with the rights it needs, behind the customary service, on a port that needs no privilege. There
/// is no way out of the cluster's network, so nothing is forwarded.
pub(crate) fn manifests() -> String {
    let image = Image::Coredns.reference();
    let address = net::DNS_SERVICE_IP;
    format!(
        r#"apiVersion: v1
kind: ServiceAccount
metadata: {{name: coredns, namespace: kube-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: system:coredns}}
rules:
- {{apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}}
- {{apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: system:coredns}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}}
subjects: [{{kind: ServiceAccount, name: coredns, namespace: kube-system}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: coredns, namespace: kube-system}}
data:
  Corefile: |
    .:1053 {{
      errors
      health :8080
      ready :8181
      kubernetes cluster.local in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
      }}
      cache 5
    }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: coredns, namespace: kube-system, labels: {{k8s-app: kube-dns}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{k8s-app: kube-dns}}}}
  template:
    metadata: {{labels: {{k8s-app: kube-dns}}}}
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      dnsPolicy: Default
      tolerations: [{{operator: Exists}}]
      containers:
      - name: coredns
        image: {image}
        imagePullPolicy: Never
        args: [-conf, /etc/coredns/Corefile]
        ports: [{{name: dns, containerPort: 1053, protocol: UDP}}, {{name: dns-tcp, containerPort: 1053}}]
        readinessProbe: {{httpGet: {{path: /ready, port: 8181}}, periodSeconds: 1}}
        livenessProbe: {{httpGet: {{path: /health, port: 8080}}, initialDelaySeconds: 30}}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {{drop: [ALL]}}
        volumeMounts: [{{name: config, mountPath: /etc/coredns, readOnly: true}}]
      volumes: [{{name: config, configMap: {{name: coredns}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system, labels: {{k8s-app: kube-dns}}}}
spec:
  clusterIP: {address}
  selector: {{k8s-app: kube-dns}}
  ports: [{{name: dns, port: 53, protocol: UDP, targetPort: dns}}, {{name: dns-tcp, port: 53, protocol: TCP, targetPort: dns-tcp}}]
"#
    )
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn the_manifests_are_yaml_documents_with_a_kind_each() {
        let text = manifests();
        let kinds: Vec<String> = serde_yaml::Deserializer::from_str(&text)
            .map(|document| serde_yaml::Value::deserialize(document).unwrap())
            .map(|document| document["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds.len(), 6);
        assert!(kinds.contains(&"Service".to_owned()));
    }
}
