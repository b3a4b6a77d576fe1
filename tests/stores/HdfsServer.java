// A NameNode and a DataNode on loopback and free ports, until standard input closes. Prints the NameNode's port.
// Run from source by tests/stores/hdfs_server.py.

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public final class HdfsServer {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.setInt("dfs.replication", 1);
        // Smaller than the files of some tests, so that these have several blocks.
        conf.setInt("dfs.blocksize", 4 << 20);
        conf.setInt("dfs.ls.limit", 100);
        conf.setBoolean("dfs.permissions.enabled", false);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf, new File(arguments[0])).numDataNodes(1).build();
        try {
            cluster.waitActive();
            System.out.println(cluster.getNameNodePort());
            System.out.flush();
            while (System.in.read() != -1) { }
        } finally {
            cluster.shutdown();
        }
    }
}
