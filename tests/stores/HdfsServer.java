// NameNodes and a DataNode on loopback and free ports, until standard input closes. Prints the
// NameNodes' ports, in one line. With a second argument there are two NameNodes of one name
// service, the first one active; a line "switch" on standard input makes the other one active,
// "kill" ends the active one before: each is answered by "done". Run from source by hdfs_server.py.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

public final class HdfsServer {
    public static void main(String[] arguments) throws Exception {
        boolean two = arguments.length > 1;
        Configuration conf = new Configuration();
        conf.setInt("dfs.replication", 1);
        // Smaller than the files of some tests, so that these have several blocks.
        conf.setInt("dfs.blocksize", 4 << 20);
        conf.setInt("dfs.ls.limit", 100);
        conf.setBoolean("dfs.permissions.enabled", false);
        // The other NameNode becomes active on command, without the cluster's own waiting time.
        conf.setInt("dfs.ha.tail-edits.period", 1);
        MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(conf, new File(arguments[0])).numDataNodes(1);
        if (two) {
            builder.nnTopology(MiniDFSNNTopology.simpleHATopology());
        }
        MiniDFSCluster cluster = builder.build();
        try {
            if (two) {
                cluster.transitionToActive(0);
            }
            cluster.waitActive();
            System.out.println(two ? cluster.getNameNodePort(0) + " " + cluster.getNameNodePort(1)
                : String.valueOf(cluster.getNameNodePort()));
            System.out.flush();
            BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
            int active = 0;
            for (String line = told.readLine(); line != null; line = told.readLine()) {
                if (line.equals("kill")) {
                    cluster.shutdownNameNode(active);
                } else {
                    cluster.transitionToStandby(active);
                }
                active = 1 - active;
                cluster.transitionToActive(active);
                System.out.println("done");
                System.out.flush();
            }
        } finally {
            cluster.shutdown();
        }
    }
}
